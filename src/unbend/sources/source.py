"""Samples of any kind, with their names and optional true labels."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unbend.pixels.folders import Broken
from unbend.sources.truth import encode_labels

__all__ = ["Broken", "Source", "encode_truth", "short_name"]


@dataclass(frozen=True)
class Source:
    """Samples with their names, files and optional true labels.

    Attributes
    ----------
    kind : {"images", "vectors", "texts"}
    name : str
        Short, for file names and titles.
    split : str
        ``"all"``, or the split of a named set.
    X : ndarray or memmap
        Vectors (n, p), or images (n, c, h, w) or (n, h, w), as they are stored; images from
        files are uint8 with three channels. Texts are an array of objects (n,).
    names : sequence of str
        One per sample: its id, the path relative to the folder or as in the list, or the row
        number.
    paths : sequence of Path or None
        The image files.
    y : ndarray of int64 or None
        True labels, for scoring only; ``classes`` are their names.
    broken : list of Broken
        Skipped files and rows, each with the reason.
    decoded : int
        Number of files decoded by this call; 0 if all came from the cache.
    note : str
        One line for the user: which columns of a table were read, which files were skipped.
    unit : {"row", "file"}
        What is skipped if it is broken.
    reading : dict
        How to read new samples of the same kind: ``columns``, ``id`` and ``text``.
    """

    kind: str
    name: str
    split: str
    X: NDArray[Any]
    names: Sequence[str]
    paths: Sequence[Path] | None = None
    y: NDArray[np.int64] | None = None
    classes: list[str] | None = None
    broken: list[Broken] = field(default_factory=list)
    decoded: int = 0
    note: str = ""
    unit: str = "row"
    reading: dict[str, Any] = field(default_factory=dict)
    _hashes: Callable[[], Sequence[str]] = field(default=lambda: (), repr=False)

    def __len__(self) -> int:
        return len(self.X)

    def describe(self) -> str:
        """What was read, in one line.

        >>> from unbend.sources import open_source
        >>> open_source([[0.0, 1.0], [2.0, 3.0]]).describe()
        'read 2 vectors of 2 from array'
        """
        kind = self.kind[:-1] if len(self) == 1 else self.kind
        shape = f" of {' x '.join(map(str, self.X.shape[1:]))}" if self.X.ndim > 1 else ""
        note = f" ({self.note})" if self.note else ""
        return f"read {len(self)} {kind}{shape} from {self.name}{note}"

    @cached_property
    def hashes(self) -> Sequence[str]:
        """Content hashes: one per image or text, or a single one for all vectors.

        Pixels are hashed, not files: one file at two sizes gets two hashes, and a file that is
        renamed or saved again unchanged keeps its hash.
        """
        return self._hashes()


def encode_truth(
    truth: NDArray[Any] | None, kept: NDArray[np.int64] | None, n: int, what: str
) -> tuple[NDArray[np.int64] | None, list[str] | None]:
    """Labels of the samples that are kept, of all ``n``, and the names of the classes."""
    if truth is None:
        return None, None
    if len(truth) != n:
        raise ValueError(f"--labels must be one per {what}, got {len(truth)} for {n}")
    return encode_labels(truth if kept is None else truth[kept])


def short_name(path: Path) -> str:
    """A name for titles and file names, without characters that file systems reject."""
    name = path.resolve().name if path.is_dir() else path.stem
    return re.sub(r"[^\w.-]+", "-", name).strip("-.") or "images"
