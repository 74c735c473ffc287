"""Read the chosen columns of a table as an array; empty cells become NaN."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from unbend.tables.choice import Choice, is_list
from unbend.tables.table import Table

__all__ = ["read_features"]


def read_features(table: Table, choice: Choice) -> NDArray[Any]:
    """Samples (n, p), read in batches so that the table is never in memory twice."""
    names = choice.features
    if is_list(table.type_of(names[0])):
        return _read_vectors(table, names[0])
    X = np.empty((table.n, len(names)), _dtype(table, names))
    start = 0
    for batch in table.batches(names):
        for j, name in enumerate(names):
            X[start : start + len(batch), j] = _numbers(batch.column(name))
        start += len(batch)
    return X


def _dtype(table: Table, names: list[str]) -> np.dtype[Any]:
    """The narrowest type for all columns; floating point where a cell is empty."""
    import pyarrow as pa

    kinds = {table.type_of(name) for name in names}
    found: np.dtype[Any] = np.result_type(
        *(np.float64 if pa.types.is_decimal(kind) else kind.to_pandas_dtype() for kind in kinds)
    )
    if found.kind == "f":
        return found
    holes = any(column.null_count for batch in table.batches(names) for column in batch.columns)
    return np.dtype(np.float64) if holes else found


def _numbers(column: Any) -> NDArray[Any]:
    import pyarrow as pa

    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_decimal(column.type) or (column.null_count and pa.types.is_boolean(column.type)):
        column = column.cast(pa.float64())
    values: NDArray[Any] = column.to_numpy(zero_copy_only=False)  # empty cells become NaN
    return values


def _read_vectors(table: Table, name: str) -> NDArray[Any]:
    """A column of lists of equal length; an empty cell becomes a row of NaN."""
    width, start, X = -1, 0, np.zeros((0, 0), np.float32)
    for batch in table.batches([name]):
        column = _plain_list(batch.column(0))
        lengths = column.value_lengths().to_numpy(zero_copy_only=False)
        known = column.is_valid().to_numpy(zero_copy_only=False)
        if width < 0 and known.any():
            width = int(lengths[known][0])
            X = np.empty((table.n, width), _vector_dtype(table, name))
            X[:start] = np.nan if start else 0
        wrong = known & (lengths != width)
        if wrong.any():
            row = int(np.argmax(wrong))
            raise ValueError(
                f"row {start + row} of {name!r} in {table.what} has {int(lengths[row])} numbers, "
                f"others have {width}; all rows must be equally long"
            )
        if width >= 0:
            block = X[start : start + len(column)]
            if not known.all():
                block[~known] = np.nan
            block[known] = _numbers(column.flatten()).reshape(-1, width)
        start += len(column)
    return X


def _plain_list(column: Any) -> Any:
    """A list of variable length: fixed lists keep numbers where they are empty."""
    import pyarrow as pa

    if pa.types.is_fixed_size_list(column.type):
        return column.cast(pa.large_list(column.type.value_type))
    return column


def _vector_dtype(table: Table, name: str) -> np.dtype[Any]:
    import pyarrow as pa

    kind = table.type_of(name).value_type
    if pa.types.is_decimal(kind):
        return np.dtype(np.float64)
    found: np.dtype[Any] = np.dtype(kind.to_pandas_dtype())
    if found.kind == "f":
        return found
    holes = any(
        b.column(0).null_count or b.column(0).flatten().null_count for b in table.batches([name])
    )
    return np.dtype(np.float64) if holes else found
