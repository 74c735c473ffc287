"""Open samples of any kind: folders, lists, arrays, files and named sets."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from unbend.disk import default_cache_dir, hash_array, hash_samples
from unbend.progress import Progress, silent
from unbend.samples.arrays import as_array
from unbend.sources.columns import has_paths, read_paths
from unbend.sources.decode import DEFAULT_SIZE, EXTENSIONS
from unbend.sources.folders import Broken, Listing, PathList, list_images
from unbend.sources.matrices import ARRAY_SUFFIXES, check_input_array, read_array
from unbend.sources.named import NAMED_SETS, load_named
from unbend.sources.pixel_cache import open_pixels
from unbend.sources.truth import encode_labels, folder_labels, read_true_labels

__all__ = ["Broken", "Source", "open_source"]


class RowNames(Sequence[str]):
    """Row numbers as text, created on access."""

    def __init__(self, rows: range) -> None:
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[str]: ...
    def __getitem__(self, index: int | slice) -> str | Sequence[str]:
        return RowNames(self._rows[index]) if isinstance(index, slice) else str(self._rows[index])


@dataclass(frozen=True)
class Source:
    """Samples with their names, files and optional true labels.

    Attributes
    ----------
    kind : {"images", "vectors"}
    name : str
        Short, for file names and titles.
    split : str
        ``"all"``, or the split of a named set.
    X : ndarray or memmap
        Vectors (n, p), or images (n, c, h, w) or (n, h, w), as they are stored; images from
        files are uint8 with three channels.
    names : sequence of str
        One per sample: the path relative to the folder or as in the list, or the row number.
    paths : sequence of Path or None
        The image files.
    y : ndarray of int64 or None
        True labels, for scoring only; ``classes`` are their names.
    broken : list of Broken
        Skipped files, each with the reason.
    decoded : int
        Number of files decoded by this call; 0 if all came from the cache.
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
    _hashes: Callable[[], Sequence[str]] = field(default=lambda: (), repr=False)

    def __len__(self) -> int:
        return len(self.X)

    @cached_property
    def hashes(self) -> Sequence[str]:
        """Content hashes: one per image, or a single one for all vectors.

        Pixels are hashed, not files: one file at two sizes gets two hashes, and a file that is
        renamed or saved again unchanged keeps its hash.
        """
        return self._hashes()


def open_source(
    spec: Any,
    *,
    image_size: int | None = None,
    workers: int | None = None,
    cache_dir: str | Path | None = None,
    max_broken: float = 0.1,
    labels: Any = None,
    progress: Progress = silent,
) -> Source:
    """Open samples of any kind.

    Parameters
    ----------
    spec
        An image folder; a ``.csv`` or ``.parquet`` list of image paths (column ``path`` or the
        first, relative to the list); a ``.npy``, ``.npz``, ``.parquet`` or ``.safetensors`` file
        (``file.npz:key`` chooses an array); a named set such as ``"digits"`` or
        ``"cifar10:test"``; an array or tensor. A name wins over a folder of the same name, which
        is then written ``./name``.
    image_size : int, optional
        Side of the square images made from files: the shorter side is resized to it and the
        centre is cropped. 64 by default. Arrays and named sets keep their own size.
    workers : int, optional
        Number of decoding processes; one per core by default, 0 for none. The result is the same.
    cache_dir : path, optional
        Cache of decoded images; see :func:`default_cache_dir`.
    max_broken : float
        Unreadable files are skipped and listed in ``broken``; if their share is above this limit,
        a ValueError is raised.
    labels
        True labels, only for scoring: a column of the list or table, an array in the file, a
        ``.npy`` or ``.csv`` file, an array, or ``"folders"`` for the names of the sub-folders.
    progress
        Receives the progress of decoding and downloads.

    Examples
    --------
    >>> source = open_source("digits")
    >>> source.kind, source.X.shape, source.classes[:2]
    ('images', (1797, 8, 8), ['0', '1'])
    """
    size = _check_options(image_size, max_broken)
    if isinstance(spec, Source):
        return _with_labels(spec, labels, None)
    if not isinstance(spec, (str, Path)):
        X = check_input_array(as_array(spec), "X")
        return _with_labels(_from_array(X, "array"), labels, None)
    text = str(spec)
    if isinstance(spec, str) and text.partition(":")[0] in NAMED_SETS:
        return _from_named(text, labels, progress)
    path, key = _locate(text)
    if path.is_dir() or _is_list(path, key):
        listing = _list(path)
        cache = Path(cache_dir) if cache_dir is not None else default_cache_dir()
        return _from_files(path, listing, size, workers, cache, max_broken, labels, progress)
    return _from_array_file(path, key, labels)


def _check_options(image_size: int | None, max_broken: float) -> int:
    size = DEFAULT_SIZE if image_size is None else image_size
    whole = isinstance(size, (int, np.integer)) and not isinstance(size, bool)
    if not whole or not 4 <= size <= 4096:
        raise ValueError(
            f"`image_size` must be a whole number from 4 to 4096, got {image_size!r}; try 64"
        )
    number = isinstance(max_broken, (int, float)) and not isinstance(max_broken, bool)
    if not number or not 0 <= max_broken <= 1:
        raise ValueError(f"`max_broken` must be a share from 0 to 1, got {max_broken!r}; try 0.1")
    return int(size)


def _locate(text: str) -> tuple[Path, str | None]:
    """Split ``file.npz:key``; raise an error that lists valid inputs if the file is missing."""
    path = Path(text).expanduser()
    if path.exists():
        if not path.is_dir() and not path.is_file():
            raise ValueError(f"{text!r} is not a regular file; give a file or a folder")
        return path, None
    head, colon, key = text.rpartition(":")
    if colon and head.lower().endswith(ARRAY_SUFFIXES) and Path(head).expanduser().is_file():
        return Path(head).expanduser(), key
    raise FileNotFoundError(
        f"no file, folder or data set {text!r}; give an image folder, a .csv list of images, a "
        f"{', '.join(ARRAY_SUFFIXES)} file, or one of: {', '.join(NAMED_SETS)}"
    )


def _is_list(path: Path, key: str | None) -> bool:
    kind = path.suffix.lower()
    if kind == ".csv":
        return True
    if kind == ".parquet":
        return key is None and has_paths(path)
    if kind in ARRAY_SUFFIXES:
        return False
    if kind in EXTENSIONS:
        raise ValueError(f"{str(path)!r} is a single image; give the folder around it")
    raise ValueError(
        f"cannot read {str(path)!r}; give an image folder, a .csv list of images, or a "
        f"{', '.join(ARRAY_SUFFIXES)} file"
    )


def _list(path: Path) -> Listing:
    if not path.is_dir():
        return Listing(path.parent, read_paths(path), [])
    listing = list_images(path)
    if not listing.names:
        what = "only unreadable images" if listing.broken else "no images"
        raise ValueError(
            f"{str(path)!r} holds {what}; give a folder with files of these kinds: "
            f"{', '.join(EXTENSIONS)}"
        )
    return listing


def _from_files(
    path: Path,
    listing: Listing,
    size: int,
    workers: int | None,
    cache: Path,
    max_broken: float,
    labels: Any,
    progress: Progress,
) -> Source:
    is_list = not path.is_dir()
    truth = _truth_of_files(path, listing.names, labels, is_list)
    found = open_pixels(
        listing.root,
        listing.names,
        size,
        cache,
        workers=workers,
        progress=progress,
        key=path.name if is_list else "",
    )
    broken = sorted(listing.broken + found.broken, key=lambda b: b.path)
    _check_broken(path, broken, len(listing.names) + len(listing.broken), max_broken)
    names = [listing.names[i] for i in found.kept]
    y = classes = None
    if truth is not None:
        y, classes = encode_labels(truth[found.kept] if len(truth) != len(names) else truth)
    return Source(
        kind="images",
        name=_short(path),
        split="all",
        X=found.X,
        names=names,
        paths=PathList(listing.root, names),
        y=y,
        classes=classes,
        broken=broken,
        decoded=found.decoded,
        _hashes=lambda: found.hashes,
    )


def _truth_of_files(
    path: Path, names: list[str], labels: Any, is_list: bool
) -> NDArray[Any] | None:
    if labels is None:
        return None
    if isinstance(labels, str) and labels == "folders":
        return folder_labels(names, of_list=is_list)
    truth = read_true_labels(labels, names, path if is_list else None)
    if len(truth) != len(names):
        raise ValueError(f"`labels` must be one per image file, got {len(truth)} for {len(names)}")
    return truth


def _check_broken(path: Path, broken: list[Broken], total: int, limit: float) -> None:
    allowed = limit * total + 1e-9  # 0.29 * 100 is slightly less than 29
    if not broken or (len(broken) <= allowed and len(broken) < total):
        return
    first = "; ".join(f"{b.path!r}: {b.reason}" for b in broken[:3])
    remedy = "repair or remove them" if len(broken) == total else "repair them or raise max_broken"
    raise ValueError(
        f"{len(broken)} of {total} files of {str(path)!r} cannot be read "
        f"({len(broken) / total:.1%}, limit {limit:.1%}), e.g. {first}; {remedy}"
    )


def _from_array_file(path: Path, key: str | None, labels: Any) -> Source:
    own = labels if isinstance(labels, str) else None
    X = check_input_array(read_array(path, key, without=own), f"{str(path)!r}")
    return _with_labels(_from_array(X, _short(path)), labels, path)


def _from_array(X: NDArray[Any], name: str) -> Source:
    images = X.ndim > 2
    return Source(
        kind="images" if images else "vectors",
        name=name,
        split="all",
        X=X,
        names=RowNames(range(len(X))),
        _hashes=lambda: hash_samples(X) if images else [hash_array(X)],
    )


def _from_named(text: str, labels: Any, progress: Progress) -> Source:
    if labels is not None:
        raise ValueError(f"`labels`: {text!r} has its own labels; leave `labels` out")
    data = load_named(text, progress=progress)
    known = bool((data.y >= 0).all())  # the unlabelled part of STL-10 has none
    return Source(
        kind="images",
        name=data.name,
        split=data.split,
        X=data.X,
        names=RowNames(range(len(data.X))),
        y=data.y if known else None,
        classes=data.classes if known else None,
        _hashes=lambda: hash_samples(data.X),
    )


def _with_labels(source: Source, labels: Any, path: Path | None) -> Source:
    if labels is None:
        return source
    if isinstance(labels, str) and labels == "folders":
        raise ValueError("labels='folders' is for image folders; give a file or a column")
    truth = read_true_labels(labels, None, path)
    if len(truth) != len(source):
        raise ValueError(f"`labels` must be one per sample, got {len(truth)} for {len(source)}")
    y, classes = encode_labels(truth)
    return replace(source, y=y, classes=classes)


def _short(path: Path) -> str:
    """A name for titles and file names, without characters that file systems reject."""
    name = path.resolve().name if path.is_dir() else path.stem
    return re.sub(r"[^\w.-]+", "-", name).strip("-.") or "images"
