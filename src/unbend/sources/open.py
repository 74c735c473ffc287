"""Open samples of any kind: folders, lists, tables, texts, arrays, files and named sets."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from unbend.disk import default_cache_dir
from unbend.in_memory import as_samples, is_text_array
from unbend.pixels.decode import EXTENSIONS
from unbend.pixels.folders import has_images
from unbend.progress import Progress, silent
from unbend.samples import as_array
from unbend.sources.from_arrays import array_source, read_array_file, read_named_set
from unbend.sources.from_files import read_folder, read_image, read_text_file, text_source
from unbend.sources.from_tables import read_table, read_table_file
from unbend.sources.matrices import ARRAY_SUFFIXES, check_input_array
from unbend.sources.named import NAMED_SETS
from unbend.sources.options import ReadOptions, check_image_size, check_max_broken
from unbend.sources.rows import row_names
from unbend.sources.source import Source, encode_truth
from unbend.tables import TABLE_SUFFIXES, is_table, open_table
from unbend.texts.folders import TEXT_SUFFIXES, list_texts

__all__ = ["holds_texts", "open_source"]

# Tables that are not read here.
_OTHER_TABLES = (".xlsx", ".xls", ".ods", ".json", ".jsonl", ".ndjson", ".pkl", ".h5", ".orc")
_PACKED = (".gz", ".zip", ".bz2", ".xz", ".zst", ".7z", ".tar", ".tgz", ".rar")


def open_source(
    spec: Any,
    *,
    image_size: int | None = None,
    workers: int | None = None,
    cache_dir: str | Path | None = None,
    max_broken: float = 0.1,
    strict: bool = False,
    labels: Any = None,
    columns: str | Sequence[str] | None = None,
    exclude: str | Sequence[str] | None = None,
    id: str | None = None,
    text: str | None = None,
    ready: Callable[[int], None] | None = None,
    progress: Progress = silent,
) -> Source:
    """Open samples of any kind.

    Parameters
    ----------
    spec
        A folder of images, or of ``.txt`` and ``.md`` files; a table (``.csv``, ``.tsv``,
        ``.parquet``, ``.feather``) of numbers, vectors, texts or image paths (relative to the
        table); an array (``.npy``, ``.npz``, ``.safetensors``; ``file.npz:key`` chooses one); one
        image or text file; a named set such as ``"digits"`` or ``"cifar10:test"``; an array or
        tensor, a pandas, polars or Arrow table, a list of paths, images or texts, a torch or
        Hugging Face data set. A name wins over a folder of the same name, which is then written
        ``./name``.
    image_size : int, optional
        Side of the square images made from files: the shorter side is resized to it and the
        centre is cropped. 64 by default. Arrays and named sets keep their own size.
    workers : int, optional
        Number of decoding processes; one per core by default, 0 for none. The result is the same.
    cache_dir : path, optional
        Cache of decoded images; see :func:`default_cache_dir`.
    max_broken : float
        Unreadable files and rows with NaN or infinity are skipped and listed in ``broken``; if
        their share is above this limit, a ValueError is raised.
    strict : bool
        Skip nothing: the first broken file or row is an error. The same as ``max_broken=0``.
    labels
        True labels, only for scoring: a column of the list or table, an array in the file, a
        ``.npy`` file or a table, an array, or ``"folders"`` for the names of the sub-folders.
    columns, exclude : names, optional
        Columns of a table to take or to leave out; by default all columns of numbers but those
        that look like ids or labels, see :func:`unbend.tables.choose_columns`.
    id, text : str, optional
        The columns of ids and of texts.
    ready : callable, optional
        Called with the number of samples when all arguments have been judged, before images are
        decoded.
    progress
        Receives the progress of decoding and downloads.

    Examples
    --------
    >>> source = open_source("digits")
    >>> source.kind, source.X.shape, source.classes[:2]
    ('images', (1797, 8, 8), ['0', '1'])
    """
    size = check_image_size(image_size)
    check_max_broken(max_broken)
    options = ReadOptions(
        size=size,
        workers=workers,
        cache=Path(cache_dir) if cache_dir is not None else default_cache_dir(),
        max_broken=0.0 if strict else max_broken,
        labels=labels,
        columns=columns,
        exclude=exclude,
        id=id,
        text=text,
        progress=progress,
        ready=_once(ready),
    )
    source = _open(spec, options)
    options.ready(len(source))
    return source


def _once(function: Callable[[int], None] | None) -> Callable[[int], None]:
    """Call the function the first time only."""
    waiting = [] if function is None else [function]
    return lambda n: waiting.pop()(n) if waiting else None


def _open(spec: Any, options: ReadOptions) -> Source:
    if not isinstance(spec, (str, Path)):
        return _open_object(spec, options)
    text = str(spec)
    if isinstance(spec, str) and text.partition(":")[0] in NAMED_SETS:
        options.refuse_columns(f"{text!r}")
        return read_named_set(text, options)
    path, key = _locate(text)
    kind = path.suffix.lower()
    if kind in TABLE_SUFFIXES and path.is_file():
        return read_table_file(path, key, options)
    options.refuse_columns(f"{str(path)!r}")
    if path.is_dir():
        return read_folder(path, options)
    if kind in EXTENSIONS:
        return read_image(path, options)
    if kind in TEXT_SUFFIXES:
        return read_text_file(path, options)
    return read_array_file(path, key, options)


def _open_object(spec: Any, options: ReadOptions) -> Source:
    """Samples in memory."""
    if isinstance(spec, Source):
        options.refuse_columns("a source")
        if options.labels is None:
            return spec
        y, classes = encode_truth(options.true_labels(), None, len(spec), "sample")
        return replace(spec, y=y, classes=classes)
    samples = as_samples(spec, image_size=options.size)
    if is_table(samples):
        return read_table(open_table(samples), "table", options)
    options.refuse_columns("the array")
    truth = options.true_labels()
    if is_text_array(samples):
        return text_source(samples, row_names(len(samples)), "texts", "the list", options, truth)
    X = check_input_array(as_array(samples), "X")
    return array_source(X, "array", "X", options, truth)


def holds_texts(spec: Any, text: str | None = None) -> bool:
    """Whether the samples are texts, found without reading them all."""
    if text is not None or isinstance(spec, Source):
        return text is not None or spec.kind == "texts"
    if isinstance(spec, (list, tuple)):
        return is_text_array(as_samples(spec)) if spec and isinstance(spec[0], str) else False
    if not isinstance(spec, (str, Path)):
        return False
    path = Path(spec).expanduser()
    if path.is_dir():
        return not has_images(path) and bool(list_texts(path))
    return path.suffix.lower() in TEXT_SUFFIXES


def _locate(text: str) -> tuple[Path, str | None]:
    """Split ``file.npz:key``; raise an error that lists valid inputs if the file is missing."""
    path = Path(text).expanduser()
    known = (*ARRAY_SUFFIXES, *TABLE_SUFFIXES)
    if path.exists():
        if not path.is_dir() and not path.is_file():
            raise ValueError(f"{text!r} is not a regular file; give a file or a folder")
        if path.suffix.lower() in _OTHER_TABLES and path.is_file():
            raise ValueError(
                f"cannot read {text!r}; save the table as .csv or .parquet, for example with pandas"
            )
        if path.suffix.lower() in _PACKED and path.is_file():
            raise ValueError(f"cannot read {text!r}, which is packed; unpack it first")
        if path.is_file() and path.suffix.lower() not in (*known, *EXTENSIONS, *TEXT_SUFFIXES):
            raise ValueError(
                f"cannot read {text!r}; give a folder of images or texts, or a {', '.join(known)} "
                "file"
            )
        return path, None
    head, colon, key = text.rpartition(":")
    if colon and head.lower().endswith(known) and Path(head).expanduser().is_file():
        return Path(head).expanduser(), key
    near = _near(path)
    if near is not None:
        raise FileNotFoundError(f"no file, folder or data set {text!r}; did you mean {near!r}?")
    raise FileNotFoundError(
        f"no file, folder or data set {text!r}; give a folder of images or texts, a "
        f"{', '.join(known)} file, or one of: {', '.join(NAMED_SETS)}"
    )


def _near(path: Path) -> str | None:
    """A data set or a neighbour of the missing path whose name is almost the same."""
    try:
        beside = {str(path.with_name(name)): name for name in os.listdir(path.parent)}
    except OSError:  # the folder is missing, too
        beside = {}
    names = {name: name for name in NAMED_SETS} | beside
    found = get_close_matches(path.name, names.values(), 1, 0.75)
    return (
        next((whole for whole, name in names.items() if name == found[0]), None) if found else None
    )
