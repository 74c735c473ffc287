"""Tables: lists of image paths, columns of numbers, columns of labels."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unbend.sources.decode import EXTENSIONS

__all__ = ["has_paths", "read_column", "read_columns", "read_csv", "read_paths"]


def read_csv(path: Path) -> tuple[list[str], list[list[str]]]:
    """Column names and rows of a csv file; without a header the names are "0", "1", ...

    The first line is a header unless its first cell is an image file's name.
    """
    try:
        with open(path, newline="", encoding="utf-8-sig", errors="surrogateescape") as file:
            rows = [row for row in csv.reader(file) if row]
    except csv.Error as error:
        raise ValueError(f"{str(path)!r} is not a csv file ({error})") from error
    if not rows:
        raise ValueError(f"{str(path)!r} is empty; give one image path per line")
    ragged = next((i for i, row in enumerate(rows) if len(row) != len(rows[0])), None)
    if ragged is not None:
        raise ValueError(
            f"line {ragged + 1} of {str(path)!r} has {len(rows[ragged])} cells, the first has "
            f"{len(rows[0])}; put quotes around cells with commas"
        )
    if rows[0][0].lower().endswith(EXTENSIONS):
        return [str(i) for i in range(len(rows[0]))], rows
    return [name.strip() for name in rows[0]], rows[1:]


def read_paths(path: Path) -> list[str]:
    """The image paths of a csv or parquet list: column ``path``, or the first."""
    if path.suffix.lower() == ".parquet":
        names = _schema(path).names
        column = "path" if "path" in names else names[0]
        values: list[str] = _table(path, [column]).column(0).to_pylist()
    else:
        header, rows = read_csv(path)
        place = header.index("path") if "path" in header else 0
        values = [row[place] for row in rows]
    if len(values) == 0:
        raise ValueError(f"{str(path)!r} lists no images; give one path per row")
    for i, value in enumerate(values):
        if not isinstance(value, str) or not value or "\0" in value:
            raise ValueError(f"row {i} of {str(path)!r} is not a path: {value!r}; remove it")
    return values


def has_paths(path: Path) -> bool:
    """Whether a parquet file is a list of image paths rather than a table of numbers."""
    import pyarrow as pa

    schema = _schema(path)
    if len(schema) == 0:
        raise ValueError(f"{str(path)!r} has no columns; store numbers or image paths")
    if "path" in schema.names:
        return _is_text(schema.field("path").type)
    numbers = any(_is_list(kind) or pa.types.is_floating(kind) for kind in schema.types)
    if numbers or not _is_text(schema.types[0]):
        return False
    first = _table(path, [schema.names[0]]).column(0)[:1].to_pylist()
    return bool(first) and str(first[0]).lower().endswith(EXTENSIONS)


def read_columns(path: Path, key: str | None = None, without: str | None = None) -> NDArray[Any]:
    """Samples of a parquet file: one column of lists of equal length, or all columns of numbers."""
    import pyarrow as pa

    schema = _schema(path)
    if key is not None and key not in schema.names:
        raise ValueError(f"{str(path)!r} has no {key!r}; it holds: {', '.join(schema.names)}")
    fields = [f for f in schema if f.name != without and key in (None, f.name)]
    lists = [f.name for f in fields if _is_list(f.type)]
    numbers = [
        f.name
        for f in fields
        if pa.types.is_integer(f.type)
        or pa.types.is_floating(f.type)
        or pa.types.is_boolean(f.type)
    ]
    if len(lists) > 1:
        raise ValueError(
            f"{str(path)!r} holds several columns of lists: {', '.join(lists)}; "
            f"choose one with '{path.name}:{lists[0]}'"
        )
    if lists:
        return _list_column(path, lists[0])
    if not numbers:
        raise ValueError(f"{str(path)!r} has no columns of numbers; it holds: {schema.names}")
    return _number_columns(path, numbers)


def read_column(path: Path, name: str) -> NDArray[Any]:
    """One column of a csv or parquet file, as text or numbers."""
    if path.suffix.lower() == ".parquet":
        schema = _schema(path)
        if name not in schema.names:
            raise ValueError(f"{str(path)!r} has no {name!r}; it holds: {', '.join(schema.names)}")
        values = _table(path, [name]).column(name).to_pylist()
        missing = next((i for i, value in enumerate(values) if value is None), None)
        if missing is not None:
            raise ValueError(f"row {missing} of {name!r} in {str(path)!r} is empty; fill it")
        return np.asarray(values)
    header, rows = read_csv(path)
    if name not in header:
        raise ValueError(f"{str(path)!r} has no column {name!r}; it holds: {', '.join(header)}")
    place = header.index(name)
    return np.asarray([row[place] for row in rows])


def _number_columns(path: Path, names: list[str]) -> NDArray[Any]:
    table = _table(path, names)
    columns = []
    for name in names:
        column = table.column(name)
        if column.null_count:
            row = column.is_null().to_pylist().index(True)
            raise ValueError(f"row {row} of {name!r} in {str(path)!r} is empty; fill or remove it")
        columns.append(column.to_numpy())
    dtype = np.result_type(*(column.dtype for column in columns))
    X = np.empty((table.num_rows, len(names)), dtype)
    for j, column in enumerate(columns):
        X[:, j] = column
    return X


def _list_column(path: Path, name: str) -> NDArray[Any]:
    column = _table(path, [name]).column(name).combine_chunks()
    if column.null_count:
        row = column.is_null().to_pylist().index(True)
        raise ValueError(f"row {row} of {name!r} in {str(path)!r} is empty; fill or remove it")
    widths = column.value_lengths().to_numpy(zero_copy_only=False)
    if len(widths) == 0:
        return np.zeros((0, 0), np.float32)
    if (widths != widths[0]).any():
        row = int(np.argmax(widths != widths[0]))
        raise ValueError(
            f"row {row} of {name!r} in {str(path)!r} has {widths[row]} numbers, row 0 has "
            f"{widths[0]}; all rows must be equally long"
        )
    flat = column.flatten()
    if flat.null_count:
        row = flat.is_null().to_pylist().index(True) // int(widths[0])
        raise ValueError(f"row {row} of {name!r} in {str(path)!r} has an empty number; fill it")
    values: NDArray[Any] = flat.to_numpy(zero_copy_only=False)
    return values.reshape(len(widths), int(widths[0]))


def _schema(path: Path) -> Any:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        schema = pq.read_schema(path)
    except (pa.ArrowException, OSError) as error:
        text = str(error).splitlines()[0]
        raise ValueError(f"{str(path)!r} is damaged or no parquet file ({text})") from error
    twice = next((name for name in schema.names if schema.names.count(name) > 1), None)
    if twice is not None:
        raise ValueError(f"{str(path)!r} has several columns called {twice!r}; rename them")
    return schema


def _table(path: Path, columns: list[str] | None = None) -> Any:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        # Read a single file; do not let pyarrow guess partitions from the path.
        return pq.ParquetFile(path).read(columns=columns)
    except (pa.ArrowException, OSError) as error:
        text = str(error).splitlines()[0]
        raise ValueError(f"{str(path)!r} is damaged or no parquet file ({text})") from error


def _is_text(kind: Any) -> bool:
    import pyarrow as pa

    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _is_list(kind: Any) -> bool:
    import pyarrow as pa

    return bool(
        pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    )
