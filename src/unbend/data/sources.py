"""The one door for samples: folders, lists, arrays, files and named sets."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from unbend.data.arrays import as_array
from unbend.data.columns import has_paths, read_paths
from unbend.data.decode import DEFAULT_SIZE, EXTENSIONS
from unbend.data.folders import Broken, Listing, PathList, list_images
from unbend.data.matrices import ARRAY_SUFFIXES, check_samples, read_array
from unbend.data.named import NAMED_SETS, load_named
from unbend.data.pages import forget_pages
from unbend.data.pixels import hash_sample, open_pixels
from unbend.data.places import default_cache_dir
from unbend.data.truth import encode_labels, folder_labels, read_labels
from unbend.progress import Progress, silent

__all__ = ["Broken", "Source", "open_source"]


class RowNames(Sequence[str]):
    """Row numbers as text, made when asked for."""

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
    """Samples, where they come from, and what is known about them.

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
        Files that were left out, each with its reason.
    decoded : int
        How many files had to be decoded now; 0 when all came from the cache.
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
        """Content hashes: of each image's pixels, or a single one of all vectors.

        Pixels rather than files, so that two caches never mistake the same file at two sizes for
        one, and a file that is renamed or saved again unchanged stays known.
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
        Image files become squares of this side: the shorter side is resized to it and the centre
        cut out. 64 if not given. Arrays and named sets keep their own size.
    workers : int, optional
        Processes that decode; one per core if not given, 0 for none. The result is the same.
    cache_dir : path, optional
        Where decoded images are kept; see :func:`default_cache_dir`.
    max_broken : float
        Files that cannot be read are left out and listed in ``broken``; if their share is above
        this limit, a ValueError says so.
    labels
        True labels, only for scoring: a column of the list or table, an array in the file, a
        ``.npy`` or ``.csv`` file, an array, or ``"folders"`` for the names of the sub-folders.
    progress
        Told about decoding and downloads.

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
        X = check_samples(as_array(spec), "X")
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
    """Split ``file.npz:key``; say what could be meant if there is nothing."""
    path = Path(text).expanduser()
    if path.exists():
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
    truth = read_labels(labels, names, path if is_list else None)
    if len(truth) != len(names):
        raise ValueError(f"`labels` must be one per image file, got {len(truth)} for {len(names)}")
    return truth


def _check_broken(path: Path, broken: list[Broken], total: int, limit: float) -> None:
    allowed = limit * total + 1e-9  # 0.29 * 100 is a little less than 29
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
    X = check_samples(read_array(path, key, without=own), f"{str(path)!r}")
    return _with_labels(_from_array(X, _short(path)), labels, path)


def _from_array(X: NDArray[Any], name: str) -> Source:
    images = X.ndim > 2
    return Source(
        kind="images" if images else "vectors",
        name=name,
        split="all",
        X=X,
        names=RowNames(range(len(X))),
        _hashes=lambda: [hash_sample(x) for x in X] if images else [_hash_of(X)],
    )


def _from_named(text: str, labels: Any, progress: Progress) -> Source:
    if labels is not None:
        raise ValueError(f"`labels`: {text!r} brings its own; leave them out")
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
        _hashes=lambda: [hash_sample(x) for x in data.X],
    )


def _with_labels(source: Source, labels: Any, path: Path | None) -> Source:
    if labels is None:
        return source
    if isinstance(labels, str) and labels == "folders":
        raise ValueError("labels='folders' is for image folders; give a file or a column")
    truth = read_labels(labels, None, path)
    if len(truth) != len(source):
        raise ValueError(f"`labels` must be one per sample, got {len(truth)} for {len(source)}")
    y, classes = encode_labels(truth)
    return replace(source, y=y, classes=classes)


def _short(path: Path) -> str:
    """A name for titles and file names, without anything that a file system dislikes."""
    name = path.resolve().name if path.is_dir() else path.stem
    return re.sub(r"[^\w.-]+", "-", name).strip("-.") or "images"


def _hash_of(X: NDArray[Any]) -> str:
    digest = hashlib.blake2b(f"{X.dtype.str}{X.shape}".encode(), digest_size=16)
    step = max(1, (1 << 20) // X.shape[1])
    for start in range(0, len(X), step):
        digest.update(np.ascontiguousarray(X[start : start + step]).data)
        forget_pages(X)
    return digest.hexdigest()
