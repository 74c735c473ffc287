"""The options of :func:`unbend.sources.open_source`, as the readers of each kind receive them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unbend.pixels.decode import DEFAULT_SIZE
from unbend.progress import Progress
from unbend.sources.truth import folder_labels, read_true_labels
from unbend.tables import Table

__all__ = ["ReadOptions", "check_image_size", "check_max_broken"]


@dataclass(frozen=True)
class ReadOptions:
    """The options of one call. ``ready`` is called with n before images are decoded."""

    size: int
    workers: int | None
    cache: Path
    max_broken: float
    labels: Any
    columns: str | Sequence[str] | None
    exclude: str | Sequence[str] | None
    id: str | None
    text: str | None
    progress: Progress
    ready: Callable[[int], None]

    def refuse_columns(self, what: str) -> None:
        """Raise if an option for tables was given with something that is not a table."""
        for name in ("columns", "exclude", "id", "text"):
            if getattr(self, name) is not None:
                raise ValueError(f"--{name} is for tables, and {what} is not one; leave it out")

    def true_labels(
        self,
        names: Sequence[str] | None = None,
        *,
        table: Table | None = None,
        arrays: Path | None = None,
        are_files: bool = False,
    ) -> NDArray[Any] | None:
        """True labels of all samples, including those that will be skipped; None if not given.

        Parameters
        ----------
        names : sequence of str, optional
            Names of the samples, to match the rows of a file of labels with.
        table, arrays : optional
            The table or the file of arrays that the samples come from.
        are_files : bool
            Whether the names are paths, so that ``labels="folders"`` is possible.
        """
        if self.labels is None:
            return None
        if isinstance(self.labels, str) and self.labels == "folders":
            if names is None or not are_files:
                raise ValueError(
                    "labels='folders' is for folders of files; give a file or a column"
                )
            return folder_labels(list(names), of_list=table is not None)
        return read_true_labels(self.labels, names, table, arrays)


def check_image_size(size: int | None) -> int:
    """The side of decoded images; the default for None."""
    if size is None:
        return DEFAULT_SIZE
    whole = isinstance(size, (int, np.integer)) and not isinstance(size, bool)
    if not whole or not 4 <= size <= 4096:
        raise ValueError(
            f"`image_size` must be a whole number from 4 to 4096, got {size!r}; try 64"
        )
    return int(size)


def check_max_broken(share: float) -> None:
    """Raise unless the limit is a share."""
    number = isinstance(share, (int, float)) and not isinstance(share, bool)
    if not number or not 0 <= share <= 1:
        raise ValueError(f"`max_broken` must be a share from 0 to 1, got {share!r}; try 0.1")
