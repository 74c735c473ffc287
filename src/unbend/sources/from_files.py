"""Read folders and lists of image files, and text files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unbend.disk import hash_values
from unbend.pixels.decode import EXTENSIONS
from unbend.pixels.folders import Broken, Listing, list_images, skipped_hint
from unbend.pixels.lazy import LazySequence
from unbend.pixels.pixel_cache import open_pixels
from unbend.sources.options import ReadOptions
from unbend.sources.rows import check_broken
from unbend.sources.source import Source, encode_truth, short_name
from unbend.tables import Table
from unbend.texts.folders import TEXT_SUFFIXES, list_texts, read_texts

__all__ = ["read_folder", "read_image", "read_listing", "read_text_file", "text_source"]


def read_folder(path: Path, options: ReadOptions) -> Source:
    """A folder of images; without any image, a folder of texts."""
    listing = list_images(path)
    if listing.names:
        return read_listing(path, listing, options)
    texts = list_texts(path)
    if texts and not listing.broken:
        return _read_texts(path, path, texts, options)
    what = "only unreadable images" if listing.broken else "no images"
    raise ValueError(
        f"{str(path)!r} holds {what}{skipped_hint(listing)}; give a folder with files of these "
        f"kinds: {', '.join((*EXTENSIONS, *TEXT_SUFFIXES))}"
    )


def read_image(path: Path, options: ReadOptions) -> Source:
    """A single image."""
    return read_listing(path, Listing(path.parent, [path.name], []), options)


def read_text_file(path: Path, options: ReadOptions) -> Source:
    """A single text."""
    return _read_texts(path, path.parent, [path.name], options)


def read_listing(
    path: Path,
    listing: Listing,
    options: ReadOptions,
    table: Table | None = None,
    ids: Sequence[str] | None = None,
) -> Source:
    """The images of a folder, or of the ``table`` that lists them; ``ids`` name them, if given."""
    truth = options.true_labels(listing.names, table=table, are_files=True)
    n = len(listing.names)
    if truth is not None:
        encode_truth(truth, None, n, "image file")  # fail before decoding, which takes minutes
    options.ready(n)
    found = open_pixels(
        listing.root,
        listing.names,
        options.size,
        options.cache,
        workers=options.workers,
        progress=options.progress,
        key="" if path.is_dir() else path.name,
    )
    broken = sorted(listing.broken + found.broken, key=lambda b: b.path)
    check_broken(f"{str(path)!r}", broken, n + len(listing.broken), options.max_broken)
    files = [listing.names[i] for i in found.kept]
    y, classes = encode_truth(truth, np.asarray(found.kept, dtype=np.int64), n, "image file")
    return Source(
        kind="images",
        name=short_name(path),
        split="all",
        X=found.X,
        names=files if ids is None else [ids[i] for i in found.kept],
        paths=LazySequence(lambda i: listing.root / files[i], range(len(files))),
        y=y,
        classes=classes,
        broken=broken,
        decoded=found.decoded,
        note=skipped_hint(listing).strip(" ()"),
        unit="file",
        _hashes=lambda: found.hashes,
    )


def _read_texts(path: Path, root: Path, names: list[str], options: ReadOptions) -> Source:
    truth = options.true_labels(names, are_files=True)
    texts = read_texts(root, names)
    return text_source(texts, names, short_name(path), f"{str(path)!r}", options, truth, "file")


def text_source(
    texts: Sequence[str | None],
    names: Sequence[str],
    name: str,
    what: str,
    options: ReadOptions,
    truth: NDArray[Any] | None,
    unit: str = "row",
    **about: Any,
) -> Source:
    """Texts as a source; unreadable and empty ones are left out.

    ``what`` and ``unit`` are words for messages, ``about`` further fields of the source.
    """
    empty = [i for i, text in enumerate(texts) if text is None or not str(text).strip()]
    broken = [
        Broken(names[i], "cannot be read" if texts[i] is None else "empty text") for i in empty
    ]
    check_broken(what, broken, len(texts), options.max_broken, f"{unit}s")
    kept = np.setdiff1d(np.arange(len(texts)), empty)
    y, classes = encode_truth(truth, kept, len(texts), "sample")
    X = np.empty(len(kept), dtype=object)
    X[:] = [str(texts[i]) for i in kept]
    return Source(
        kind="texts",
        name=name,
        split="all",
        X=X,
        names=names if not empty else [names[i] for i in kept],
        y=y,
        classes=classes,
        broken=broken,
        unit=unit,
        _hashes=lambda: [hash_values(text) for text in X],
        **about,
    )
