"""Open samples of any kind: folders, lists, tables, texts, arrays, files and named sets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unbend.disk import default_cache_dir, hash_array, hash_samples, hash_values
from unbend.forms import as_samples, is_text_array
from unbend.pixels.decode import DEFAULT_SIZE, EXTENSIONS
from unbend.pixels.folders import (
    Broken,
    Listing,
    PathList,
    has_images,
    list_images,
    skipped_hint,
)
from unbend.pixels.pixel_cache import open_pixels
from unbend.progress import Progress, silent
from unbend.samples import as_array
from unbend.sources.columns import path_column, read_paths
from unbend.sources.matrices import ARRAY_SUFFIXES, check_input_array, read_array
from unbend.sources.named import NAMED_SETS, load_named
from unbend.sources.rows import PickedNames, RowNames, check_broken, find_bad_rows, leave_out
from unbend.sources.source import Source, encode_truth, short_name
from unbend.sources.truth import folder_labels, read_true_labels
from unbend.tables import (
    TABLE_SUFFIXES,
    Table,
    choose_columns,
    is_table,
    open_table,
    read_features,
)
from unbend.texts.folders import TEXT_SUFFIXES, list_texts, read_texts

__all__ = ["holds_texts", "open_source"]


@dataclass(frozen=True)
class _Call:
    """The options of one call of :func:`open_source`."""

    size: int
    workers: int | None
    cache: Path
    max_broken: float
    labels: Any
    columns: Any
    exclude: Any
    id: str | None
    text: str | None
    progress: Progress
    ready: Callable[[], None]

    def refuse_columns(self, what: str) -> None:
        """Options for tables have no meaning here."""
        for name in ("columns", "exclude", "id", "text"):
            if getattr(self, name) is not None:
                raise ValueError(f"--{name} is for tables, and {what} is none; leave it out")


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
    ready: Callable[[], None] | None = None,
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
        Called when all arguments have been judged, before images are decoded.
    progress
        Receives the progress of decoding and downloads.

    Examples
    --------
    >>> source = open_source("digits")
    >>> source.kind, source.X.shape, source.classes[:2]
    ('images', (1797, 8, 8), ['0', '1'])
    """
    size = _check_options(image_size, max_broken)
    cache = Path(cache_dir) if cache_dir is not None else default_cache_dir()
    limit = 0.0 if strict else max_broken
    call = _Call(
        size, workers, cache, limit, labels, columns, exclude, id, text, progress,
        _once(ready),
    )  # fmt: skip
    source = _open(spec, call)
    call.ready()
    return source


def _once(ready: Callable[[], None] | None) -> Callable[[], None]:
    waiting = [] if ready is None else [ready]
    return lambda: waiting.pop()() if waiting else None


def _open(spec: Any, call: _Call) -> Source:
    if isinstance(spec, Source):
        call.refuse_columns("a source")
        return _with_truth(spec, call)
    if not isinstance(spec, (str, Path)):
        return _from_object(spec, call)
    name = str(spec)
    if isinstance(spec, str) and name.partition(":")[0] in NAMED_SETS:
        call.refuse_columns(f"{name!r}")
        return _from_named(name, call)
    path, key = _locate(name)
    if path.is_dir() or path.suffix.lower() in EXTENSIONS:
        call.refuse_columns(f"{str(path)!r}")
        return _from_folder(path, call) if path.is_dir() else _from_image(path, call)
    if path.suffix.lower() in TABLE_SUFFIXES:
        return _from_table_file(path, key, call)
    call.refuse_columns(f"{str(path)!r}")
    if path.suffix.lower() in TEXT_SUFFIXES:
        return _from_texts(path, path.parent, [path.name], call)
    X = check_input_array(read_array(path, key), f"{str(path)!r}")
    truth = _truth(call, None, arrays=path)
    return _from_array(X, short_name(path), f"{str(path)!r}", call, truth)


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
    known = (*ARRAY_SUFFIXES, *TABLE_SUFFIXES)
    if path.exists():
        if not path.is_dir() and not path.is_file():
            raise ValueError(f"{text!r} is not a regular file; give a file or a folder")
        if path.is_file() and path.suffix.lower() not in (*known, *EXTENSIONS, *TEXT_SUFFIXES):
            raise ValueError(
                f"cannot read {text!r}; give a folder of images or texts, or a {', '.join(known)} "
                "file"
            )
        return path, None
    head, colon, key = text.rpartition(":")
    if colon and head.lower().endswith(known) and Path(head).expanduser().is_file():
        return Path(head).expanduser(), key
    raise FileNotFoundError(
        f"no file, folder or data set {text!r}; give a folder of images or texts, a "
        f"{', '.join(known)} file, or one of: {', '.join(NAMED_SETS)}"
    )


# ---------------------------------------------------------------------- files


def _from_folder(path: Path, call: _Call) -> Source:
    listing = list_images(path)
    if not listing.names:
        texts = list_texts(path)
        if texts and not listing.broken:
            return _from_texts(path, path, texts, call)
        what = "only unreadable images" if listing.broken else "no images"
        raise ValueError(
            f"{str(path)!r} holds {what}{skipped_hint(listing)}; give a folder with files of these "
            f"kinds: {', '.join((*EXTENSIONS, *TEXT_SUFFIXES))}"
        )
    return _from_files(path, listing, call, None)


def _from_image(path: Path, call: _Call) -> Source:
    return _from_files(path, Listing(path.parent, [path.name], []), call, None)


def _from_files(path: Path, listing: Listing, call: _Call, table: Table | None) -> Source:
    truth = _truth(call, listing.names, table, of_list=table is not None)
    n = len(listing.names)
    if truth is not None:
        encode_truth(truth, None, n, "image file")  # fail before decoding, which takes minutes
    call.ready()
    found = open_pixels(
        listing.root,
        listing.names,
        call.size,
        call.cache,
        workers=call.workers,
        progress=call.progress,
        key="" if path.is_dir() else path.name,
    )
    broken = sorted(listing.broken + found.broken, key=lambda b: b.path)
    check_broken(f"{str(path)!r}", broken, n + len(listing.broken), call.max_broken)
    kept = np.asarray(found.kept, dtype=np.int64)
    files = [listing.names[i] for i in found.kept]
    ids = None if call.id is None or table is None else _ids(table, call.id)
    y, classes = encode_truth(truth, kept, n, "image file")
    return Source(
        kind="images",
        name=short_name(path),
        split="all",
        X=found.X,
        names=files if ids is None else [ids[i] for i in found.kept],
        paths=PathList(listing.root, files),
        y=y,
        classes=classes,
        broken=broken,
        decoded=found.decoded,
        note=skipped_hint(listing).strip(" ()"),
        _hashes=lambda: found.hashes,
    )


def _from_texts(path: Path, root: Path, names: list[str], call: _Call) -> Source:
    texts = read_texts(root, names)
    truth = _truth(call, names)
    return _text_source(texts, names, short_name(path), f"{str(path)!r}", call, truth, "file")


def _text_source(
    texts: Sequence[str | None],
    names: Sequence[str],
    name: str,
    what: str,
    call: _Call,
    truth: NDArray[Any] | None,
    unit: str = "row",
    **about: Any,
) -> Source:
    empty = [i for i, text in enumerate(texts) if text is None or not str(text).strip()]
    broken = [
        Broken(names[i], "cannot be read" if texts[i] is None else "empty text") for i in empty
    ]
    check_broken(what, broken, len(texts), call.max_broken, f"{unit}s")
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
        _hashes=lambda: [hash_values(text) for text in X],
        **about,
    )


# ---------------------------------------------------------------------- tables


def _from_table_file(path: Path, key: str | None, call: _Call) -> Source:
    table = open_table(path)
    asked = key is None and call.columns is None and call.text is None
    paths = path_column(table) if asked else None
    if paths is not None and call.id not in (None, paths):
        table.check_names([str(call.id)], "--id")
    if paths is not None:
        listing = Listing(path.parent, read_paths(table, paths), [])
        source = _from_files(path, listing, call, table)
        return replace(source, note=f"images listed in column {paths!r}", reading={"id": call.id})
    if key is not None and call.columns is None and call.text is None:
        table.check_names([key])
        call = replace(call, columns=[key])
    return _from_table(table, short_name(path), call)


def _from_table(table: Table, name: str, call: _Call) -> Source:
    own = call.labels if isinstance(call.labels, str) and call.labels in table.columns else None
    choice = choose_columns(
        table,
        columns=call.columns,
        exclude=call.exclude,
        id=call.id,
        labels=own,
        text=call.text,
    )
    if table.n == 0:
        raise ValueError(f"{table.what} has no rows; give at least one")
    names = _ids(table, choice.id)
    truth = _truth(call, names if choice.id or table.names else None, table)
    about: dict[str, Any] = {
        "note": choice.note(),
        "reading": {"columns": choice.features, "id": choice.id},
    }
    if choice.text is not None:
        about["reading"] = {"text": choice.text, "id": choice.id}
        texts = table.values(choice.text)
        return _text_source(texts, names, name, table.what, call, truth, **about)
    X = check_input_array(read_features(table, choice), table.what)
    columns = choice.features if len(choice.features) == X.shape[1] else None
    source = _from_array(X, name, table.what, call, truth, names, columns)
    return replace(source, **about)


def _ids(table: Table, column: str | None) -> Sequence[str]:
    if column is None:
        return table.names if table.names is not None else RowNames(range(table.n))
    values = table.values(column)
    empty = [i for i, value in enumerate(values) if value is None or value == ""]
    if empty:
        raise ValueError(
            f"--id: column {column!r} of {table.what} is empty in row {empty[0]}; fill it or name "
            "another"
        )
    return [str(value) for value in values]


# ---------------------------------------------------------------------- in memory


def _from_object(spec: Any, call: _Call) -> Source:
    samples = as_samples(spec, image_size=call.size)
    if is_table(samples):
        return _from_table(open_table(samples), "table", call)
    call.refuse_columns("the array")
    if is_text_array(samples):
        names = RowNames(range(len(samples)))
        return _text_source(samples, names, "texts", "the list", call, _truth(call, None))
    X = check_input_array(as_array(samples), "X")
    return _from_array(X, "array", "X", call, _truth(call, None))


def _from_array(
    X: NDArray[Any],
    name: str,
    what: str,
    call: _Call,
    truth: NDArray[Any] | None,
    names: Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
) -> Source:
    images, n = X.ndim > 2, len(X)
    names = RowNames(range(n)) if names is None else names
    bad = find_bad_rows(X)
    kept, broken = (None, []) if not len(bad) else leave_out(X, names, bad, columns)
    if kept is not None:
        check_broken(what, broken, n, call.max_broken, "rows")
        X, names = np.asarray(X[kept]), PickedNames(names, kept)
    y, classes = encode_truth(truth, kept, n, "sample")
    return Source(
        kind="images" if images else "vectors",
        name=name,
        split="all",
        X=X,
        names=names,
        y=y,
        classes=classes,
        broken=broken,
        _hashes=lambda: hash_samples(X) if images else [hash_array(X)],
    )


def _from_named(text: str, call: _Call) -> Source:
    if call.labels is not None:
        raise ValueError(f"`labels`: {text!r} has its own labels; leave `labels` out")
    data = load_named(text, progress=call.progress)
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


# ---------------------------------------------------------------------- labels


def _truth(
    call: _Call,
    names: Sequence[str] | None,
    table: Table | None = None,
    arrays: Path | None = None,
    of_list: bool = False,
) -> NDArray[Any] | None:
    """True labels of all samples, also of those that are skipped later."""
    labels = call.labels
    if labels is None:
        return None
    if isinstance(labels, str) and labels == "folders":
        files = names is not None and (table is None or of_list)
        if not files:
            raise ValueError("labels='folders' is for folders of files; give a file or a column")
        return folder_labels(list(names or ()), of_list=of_list)
    return read_true_labels(labels, names, table, arrays)


def _with_truth(source: Source, call: _Call) -> Source:
    if call.labels is None:
        return source
    y, classes = encode_truth(_truth(call, None), None, len(source), "sample")
    return replace(source, y=y, classes=classes)
