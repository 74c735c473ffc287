"""Convert samples in memory to arrays: lists of paths, images or texts, data sets, tables."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch.utils.data import DataLoader, Dataset, IterableDataset, RandomSampler

from unbend.exceptions import UnbendWarning
from unbend.pixels.decode import DEFAULT_SIZE, EXTENSIONS, crop_square
from unbend.pixels.folders import list_images
from unbend.pixels.workers import decode_all
from unbend.samples import as_array
from unbend.tables import (
    Choice,
    NoNumbers,
    Table,
    choose_columns,
    near_names,
    open_table,
    read_features,
)
from unbend.texts.folders import TEXT_SUFFIXES, list_texts, read_texts

__all__ = ["as_samples", "is_text_array", "pick_columns", "read_as_before"]

_KEYS = ("pixel_values", "image", "img", "x", "inputs", "features", "embedding", "text")


class _Side:
    """The side of decoded images, found only when needed because that may load an encoder."""

    def __init__(self, given: int | Callable[[], int | None] | None) -> None:
        self._given = given

    def get(self) -> int:
        found = self._given() if callable(self._given) else self._given
        return DEFAULT_SIZE if found is None else int(found)


def is_text_array(X: Any) -> bool:
    """Whether samples are texts, as :func:`as_samples` returns them."""
    return isinstance(X, np.ndarray) and X.ndim == 1 and X.dtype == object


def as_samples(X: Any, *, image_size: int | Callable[[], int | None] | None = None) -> Any:
    """Samples as an array: vectors (n, p), images (n, c, h, w), or objects (n,) for texts.

    Tables and anything that is not recognised are returned unchanged.

    Parameters
    ----------
    X
        A folder; a list of paths, of PIL images or of texts; one PIL image or image file; a torch
        ``Dataset`` or ``DataLoader``; a Hugging Face data set; an array or tensor.
    image_size : int or callable, optional
        Side of the images made from files and PIL images, or a function that returns it; 64 by
        default.
    """
    size = _Side(image_size)
    _refuse_others(X)
    if isinstance(X, (str, Path)):
        return _from_place(Path(X).expanduser(), size)
    if isinstance(X, Image.Image):
        return _squares([X], size)
    if type(X).__module__.startswith("datasets.") and hasattr(X, "features"):
        return _from_hugging_face(X, size)
    if isinstance(X, (Dataset, DataLoader)):
        return _from_items(list(_items_of(X)), size)
    if isinstance(X, (list, tuple)) and len(X):
        if isinstance(X[0], (Image.Image, str, Path)):
            return _from_items(list(X), size)
        if isinstance(X[0], torch.Tensor):
            return _stacked(X)
    if isinstance(X, np.ndarray) and X.ndim == 1 and X.dtype.kind == "U":
        return _objects(X.tolist())
    if type(X).__name__ == "Series" and all(isinstance(v, str) for v in X):
        return _from_items(list(X), size)
    return _channels_first(X)


def _refuse_others(X: Any) -> None:
    """Raise on what looks like samples but is not, with the call that makes samples of it."""
    name, remedy = type(X).__name__, ""
    if name in ("DatasetDict", "IterableDatasetDict"):
        remedy = f"choose a split, as in X[{next(iter(X), 'train')!r}]"
    elif type(X).__module__.startswith("datasets.") and not hasattr(X, "__len__"):
        remedy = "take some rows, as in datasets.Dataset.from_list(list(X.take(10_000)))"
    elif type(X) in (dict, set):  # a sparse matrix may be a kind of dict
        remedy = "make a table of it, as in pandas.DataFrame(X)" if X else "give samples"
    elif hasattr(X, "__next__"):
        remedy = "pass list(X)"
    elif name == "Series" and not all(isinstance(v, str) for v in X):
        remedy = "pass a table: X.to_frame().T if it is one row, X.to_frame() if it is one column"
    if remedy:
        raise ValueError(f"X is of type {name}, which is not read; {remedy}")


def _text_of(text: str | None, path: Path) -> str:
    if text is None:
        raise ValueError(f"{str(path)!r} cannot be read as text; remove it, or save it as UTF-8")
    return text


def _from_place(path: Path, size: _Side) -> NDArray[Any]:
    """A folder of images or texts, or one image."""
    if path.is_dir():
        names = list_images(path).names
        if names:
            return _decode([str(path / name) for name in names], size)
        texts = list_texts(path)
        if texts:
            found = [
                _text_of(t, path / name)
                for t, name in zip(read_texts(path, texts), texts, strict=True)
            ]
            return _from_items(found, size, texts=True)
        raise ValueError(f"{str(path)!r} holds neither images nor texts; give another folder")
    if path.suffix.lower() in EXTENSIONS:
        return _decode([str(path)], size)
    if path.suffix.lower() in TEXT_SUFFIXES and path.is_file():
        return _objects([_text_of(read_texts(path.parent, [path.name])[0], path)])
    if path.exists():
        raise ValueError(
            f"X is the file {str(path)!r}; read it first, or call unbend.workflows.cluster, which "
            "reads files"
        )
    raise FileNotFoundError(f"X is {str(path)!r}, and there is no such folder or image")


def _from_items(items: list[Any], size: _Side, texts: bool = False) -> NDArray[Any]:
    """Samples one by one: images, paths, texts, arrays or tensors."""
    if not items:
        raise ValueError("X holds no samples; give at least one")
    first = items[0]
    kinds = {str if isinstance(i, str) else type(i) for i in items}
    if isinstance(first, Image.Image):
        _check_alike(items, Image.Image, "an image")
        return _squares(items, size)
    if isinstance(first, Path) or (not texts and kinds == {str} and _are_paths(items)):
        return _decode([str(item) for item in items], size)
    if isinstance(first, str):
        _check_alike(items, str, "a text")
        return _objects(items)
    return _stacked(items)


def _check_alike(items: Sequence[Any], kind: type, what: str) -> None:
    other = next((i for i, item in enumerate(items) if not isinstance(item, kind)), None)
    if other is not None:
        raise ValueError(
            f"X[0] is {what}, X[{other}] is {type(items[other]).__name__}; give one kind"
        )


def _are_paths(items: Sequence[str]) -> bool:
    return all(item.lower().endswith(EXTENSIONS) and "\n" not in item for item in items)


def _objects(texts: Sequence[str]) -> NDArray[Any]:
    found = np.empty(len(texts), dtype=object)
    found[:] = list(texts)
    return found


def _decode(paths: list[str], size: _Side) -> NDArray[np.uint8]:
    """Pixels of files; an unreadable file is an error, because labels must stay one per item."""
    side = size.get()
    X = np.empty((len(paths), 3, side, side), np.uint8)
    wrong: list[str] = []
    for i, found in enumerate(decode_all(paths, side)):
        if found.pixels is None:
            wrong.append(f"{paths[i]!r}: {found.reason}")
        else:
            X[i] = np.frombuffer(found.pixels, np.uint8).reshape(3, side, side)
    if wrong and len(paths) == 1:
        raise ValueError(f"cannot read the image {wrong[0]}")
    if wrong:
        raise ValueError(
            f"{len(wrong)} of {len(paths)} images cannot be read, e.g. {wrong[0]}; remove them, or "
            "call unbend.workflows.cluster, which skips and lists them"
        )
    return X


def _squares(images: Sequence[Image.Image], size: _Side) -> NDArray[np.uint8]:
    side = size.get()
    pixels = b"".join(crop_square(image, side) for image in images)
    return np.frombuffer(pixels, np.uint8).reshape(len(images), 3, side, side)


# ---------------------------------------------------------------------- data sets


def _items_of(data: Any) -> Iterator[Any]:
    """The samples of a torch data set or loader, without their labels."""
    if isinstance(data, DataLoader):
        if isinstance(data.sampler, RandomSampler):
            raise ValueError(
                "X is a DataLoader that shuffles, so labels could not be matched with samples; use "
                "shuffle=False"
            )
        for batch in data:
            yield from _sample_of(batch)
        return
    if isinstance(data, IterableDataset):
        for item in data:
            yield _sample_of(item)
        return
    for i in range(len(data)):
        yield _sample_of(data[i])


def _sample_of(item: Any) -> Any:
    """The first part of (sample, label), or the usual key of a dict."""
    if isinstance(item, dict):
        key = next((key for key in _KEYS if key in item), None)
        if key is None:
            raise ValueError(
                f"items of X are dicts with {', '.join(map(str, item))}; call the samples one of: "
                f"{', '.join(_KEYS)}"
            )
        return item[key]
    return item[0] if isinstance(item, (tuple, list)) else item


def _stacked(items: Sequence[Any]) -> NDArray[Any]:
    arrays = [as_array(item) for item in items]
    shapes = {array.shape for array in arrays}
    if len(shapes) > 1:
        raise ValueError(
            f"samples of X have different shapes: {sorted(shapes)[:3]}; resize them to one shape"
        )
    found: NDArray[Any] = _channels_first(np.stack(arrays))
    return found


def _from_hugging_face(data: Any, size: _Side) -> Any:
    """The images of a data set; without a column of images, the data set itself, a table."""
    kinds = {name: type(kind).__name__ for name, kind in data.features.items()}
    images = [name for name, kind in kinds.items() if kind == "Image"]
    if images:
        return _squares([data[i][images[0]] for i in range(len(data))], size)
    return data


def _channels_first(X: Any) -> Any:
    """Images (n, h, w, c) as (n, c, h, w), where the shape is unambiguous."""
    shape: tuple[int, ...] = tuple(getattr(X, "shape", ()))
    if len(shape) != 4 or shape[1] in (1, 3) or shape[3] not in (1, 3):
        return X
    return X.permute(0, 3, 1, 2) if isinstance(X, torch.Tensor) else X.transpose(0, 3, 1, 2)


# ---------------------------------------------------------------------- tables


def pick_columns(X: Any, fitted: Sequence[str] | None = None) -> Any:
    """The samples of a table, as a table with fewer columns, an array of vectors, or texts.

    In fit, columns that look like ids or labels and columns without numbers are left out with a
    warning. Later, ``fitted`` names the columns of fit to take.
    """
    if fitted is None:
        table = open_table(X)
        try:
            choice = choose_columns(table)
        except NoNumbers as error:
            return _only_texts(table, error)
        if choice.id is not None and choice.id in table.columns:
            choice.left_out[choice.id] = "looks like ids"
        if choice.left_out:
            warnings.warn(
                f"columns of X that are left out: {_listed(choice.left_out)}; to use them, pass an "
                "array",
                UnbendWarning,
                stacklevel=4,
            )
        names = choice.features
        if len(names) == 1 and table.kind_of(names[0]).holds == "vector":
            return read_features(table, choice)
    else:
        names = list(fitted)
        columns = [str(name) for name in _columns(X)]
        missing = [name for name in names if name not in columns]
        if missing or columns[: len(names)] == names == columns:
            return X  # scikit-learn says what is wrong with it
    return _select(X, names)


def _only_texts(table: Table, error: NoNumbers) -> NDArray[Any]:
    """The texts of a table that has one column of text, and no numbers to take."""
    if len(error.texts) != 1:
        remedy = f"; choose one, as in X[{error.texts[0]!r}]" if error.texts else ""
        several = f"several columns of text: {', '.join(error.texts)}{remedy}"
        raise ValueError(f"X has {several if error.texts else 'no columns of numbers'}") from error
    return _texts(table, error.texts[0])


def _texts(table: Table, name: str) -> NDArray[Any]:
    values = table.values(name)
    empty = [i for i, value in enumerate(values) if value is None or not str(value).strip()]
    if empty:
        raise ValueError(
            f"{name!r} of X is empty in {len(empty)} of {len(values)} rows, the first is "
            f"{empty[0]}; remove them"
        )
    return _objects(values)


def read_as_before(X: Any, reading: dict[str, Any]) -> NDArray[Any]:
    """The vectors or texts of a table, from the columns that a run has read."""
    table = open_table(X)
    text = reading.get("text")
    names = [text] if text is not None else list(reading["columns"])
    missing = next((name for name in names if name not in table.columns), None)
    if missing is not None:
        raise ValueError(
            f"the model was fitted on column {missing!r}, which X does not have; "
            f"{near_names(missing, table.columns)}"
        )
    return read_features(table, Choice(names)) if text is None else _texts(table, text)


def _listed(left: dict[str, str]) -> str:
    return ", ".join(f"{name} ({reason})" for name, reason in list(left.items())[:8])


def _columns(X: Any) -> Sequence[Any]:
    names = X.column_names if hasattr(X, "column_names") else getattr(X, "columns", ())
    return list(names)


def _select(X: Any, names: Sequence[str]) -> Any:
    """The named columns, in their order."""
    if hasattr(X, "iloc"):
        columns = [str(name) for name in X.columns]
        return X if columns == list(names) else X.iloc[:, [columns.index(n) for n in names]]
    if type(X).__module__.startswith("datasets."):
        X = X.with_format("arrow")[:]
    X = X.collect() if type(X).__name__ == "LazyFrame" else X
    return X.select(list(names))
