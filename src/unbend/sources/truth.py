"""Read the user's true labels. They are used for scoring only, never for training."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path, PurePath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unbend.sources.columns import read_column
from unbend.sources.matrices import read_array
from unbend.tables import TABLE_SUFFIXES, Table, open_table

__all__ = ["encode_labels", "folder_labels", "read_true_labels"]

_USUAL_NAMES = ("label", "labels", "class", "target", "y")
_KEYS = ("path", "sample", "id")  # columns that say which sample a label is for


def encode_labels(values: Any, what: str = "labels") -> tuple[NDArray[np.int64], list[str]]:
    """Encode labels of any kind as 0..k-1; also return the k names in sorted order.

    >>> encode_labels(["cat", "dog", "cat"])
    (array([0, 1, 0]), ['cat', 'dog'])
    """
    values = np.asarray(values)
    if values.ndim != 1:
        raise ValueError(f"{what} must be one per sample, got shape {values.shape}")
    if values.dtype.kind not in "biufUS":
        raise ValueError(f"{what} must be numbers or text, got dtype {values.dtype}")
    text = values.dtype.kind in "US"
    empty = values == values.dtype.type() if text else ~np.isfinite(values)
    if empty.any():
        raise ValueError(f"{what} is empty in row {int(np.argmax(empty))}; fill it or leave it out")
    if values.dtype.kind == "f":
        if (values != np.rint(values)).any():
            row = int(np.argmax(values != np.rint(values)))
            raise ValueError(f"{what} must be classes, got {values[row]} in row {row}")
        values = values.astype(np.int64)
    elif values.dtype.kind == "U" and all(value.isdecimal() for value in values.tolist()):
        values = values.astype(np.int64)  # so that 10 comes after 9
    found, y = np.unique(values, return_inverse=True)
    names = [v.decode(errors="replace") if isinstance(v, bytes) else str(v) for v in found.tolist()]
    return y.astype(np.int64), names


def folder_labels(names: list[str], of_list: bool = False) -> NDArray[Any]:
    """The top-level folder of each file; for a list of paths, the parent folder."""
    parents = [PurePath(name).parent for name in names]
    found = [(p.name if of_list else p.parts[0]) if p.parts else "" for p in parents]
    if not any(found):
        raise ValueError("labels='folders' needs sub-folders, but all images lie in one folder")
    return np.asarray([name or "." for name in found])


def read_true_labels(
    labels: Any,
    names: Sequence[str] | None = None,
    table: Table | None = None,
    arrays: Path | None = None,
) -> NDArray[Any]:
    """Read labels from an array, a column or array of the source itself, or a separate file.

    Parameters
    ----------
    labels
        Array-like; or the name of a column of ``table`` or of an array in the file ``arrays``
        (npz, safetensors); or a ``.npy`` file or table with one label per sample. A table with a
        column ``path``, ``sample`` or ``id`` may be in any order: its rows are matched with
        ``names``.
    """
    if not isinstance(labels, (str, Path)):
        return np.asarray(labels)
    if table is not None and str(labels) in table.columns:
        return read_column(table, str(labels))
    path = Path(labels)
    if path.suffix.lower() in (".npy", *TABLE_SUFFIXES):
        if not path.is_file():
            wrong = "is not a regular file" if path.exists() else "does not exist"
            raise FileNotFoundError(f"--labels: file {str(path)!r} {wrong}; name another")
        return _from_file(path, names)
    if table is not None:
        table.check_names([str(labels)], "--labels")
    if arrays is not None and arrays.suffix.lower() in (".npz", ".safetensors"):
        return read_array(arrays, str(labels))
    hint = "; did you mean 'folders'?" if get_close_matches(str(labels), ["folders"]) else ""
    raise ValueError(
        "--labels must be a .npy or .csv file, or a column of the source, got "
        f"{str(labels)!r}{hint}"
    )


def _from_file(path: Path, names: Sequence[str] | None) -> NDArray[Any]:
    if path.suffix.lower() == ".npy":
        return np.asarray(read_array(path))
    table = open_table(path)
    header = table.columns
    usual = [name for name in _USUAL_NAMES if name in header]
    if len(header) == 1 and not usual:
        values = table.values(header[0])
        # Without a header the first line is a label too; numbers alone are never a header.
        delimited = table.is_written and header != ["0"]
        return np.asarray([header[0], *values] if delimited else values)
    chosen = usual[0] if usual else header[-1]
    values = read_column(table, chosen).tolist()
    key = next((name for name in _KEYS if name in header and name != chosen), None)
    if names is None or key is None:
        return np.asarray(values)
    by_name = dict(zip(map(str, table.values(key)), values, strict=True))
    # unbend's own tables protect names such as =1+1 from spreadsheets by a quote.
    by_name |= {name[1:]: label for name, label in by_name.items() if name.startswith("'")}
    missing = [name for name in names if name not in by_name]
    if missing:
        more = f" ({len(missing)} such samples)" if len(missing) > 1 else ""
        raise ValueError(f"{str(path)!r} has no label for {missing[0]!r}{more}; add a row for it")
    return np.asarray([by_name[name] for name in names])
