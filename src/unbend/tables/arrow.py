"""Tables of Arrow: the columns of a schema, read in batches. Needs pyarrow, an extra."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unbend.tables.table import Kind, Table

__all__ = ["ArrowTable"]


@dataclass(frozen=True)
class ArrowTable(Table):
    """Columns that come as record batches, so that a large file is never in memory twice.

    Attributes
    ----------
    schema : pyarrow.Schema
    batches : callable
        From a list of column names to record batches of these columns, in the order of the rows.
    texts : callable or None
        From a column name to its cells as written, for formats that store text only.
    """

    schema: Any = None
    batches: Callable[[list[str]], Iterator[Any]] = lambda columns: iter(())
    texts: Callable[[str], list[str]] | None = None

    @property
    def is_written(self) -> bool:
        """Whether the file stores text only."""
        return self.texts is not None

    def kind_of(self, name: str) -> Kind:
        """What a column holds."""
        return _kind(self._type(name))

    def values(self, name: str) -> list[Any]:
        """The values of a column; cells of a csv file are text, as they are written."""
        self.check_names([name])
        if self.texts is not None:
            return self.texts(name)
        return [v for batch in self.batches([name]) for v in batch.column(0).to_pylist()]

    def array(self, name: str) -> NDArray[Any]:
        """A column of numbers or texts."""
        parts = [b.column(0).to_numpy(zero_copy_only=False) for b in self.batches([name])]
        return np.concatenate(parts) if parts else np.zeros(0)

    def first_cells(self, name: str, most: int) -> list[str]:
        """The first cells of a column as text."""
        for batch in self.batches([name]):
            cells = batch.column(0)[:most].to_pylist()
            return [
                c.decode(errors="replace") if isinstance(c, bytes) else str(c or "") for c in cells
            ]
        return []

    def numbers(self, names: list[str]) -> NDArray[Any]:
        """Columns of numbers as an array (n, p)."""
        X = np.empty((self.n, len(names)), self._dtype(names))
        start = 0
        for batch in self.batches(names):
            for j, name in enumerate(names):
                X[start : start + len(batch), j] = _numbers(batch.column(name))
            start += len(batch)
        return X

    def vectors(self, name: str) -> NDArray[Any]:
        """A column of lists of equal length as an array (n, p)."""
        width, start, X = -1, 0, np.zeros((0, 0), np.float32)
        for batch in self.batches([name]):
            column = _plain_list(batch.column(0))
            lengths = column.value_lengths().to_numpy(zero_copy_only=False)
            known = column.is_valid().to_numpy(zero_copy_only=False)
            if width < 0 and known.any():
                width = int(lengths[known][0])
                X = np.empty((self.n, width), self._vector_dtype(name))
                X[:start] = np.nan if start else 0
            wrong = known & (lengths != width)
            if wrong.any():
                row = int(np.argmax(wrong))
                raise self.lengths_differ(name, start + row, int(lengths[row]), width)
            if width >= 0:
                block = X[start : start + len(column)]
                if not known.all():
                    block[~known] = np.nan
                block[known] = _numbers(column.flatten()).reshape(-1, width)
            start += len(column)
        return X

    def _type(self, name: str) -> Any:
        """The Arrow type of a column; a dictionary counts as its values."""
        import pyarrow as pa

        kind = self.schema.field(name).type
        return kind.value_type if pa.types.is_dictionary(kind) else kind

    def _dtype(self, names: list[str]) -> np.dtype[Any]:
        """The narrowest type for all columns; floating point where a cell is empty."""
        found: np.dtype[Any] = np.result_type(
            *(_numpy_type(kind) for kind in {self._type(name) for name in names})
        )
        if found.kind == "f":
            return found
        holes = any(c.null_count for batch in self.batches(names) for c in batch.columns)
        return np.dtype(np.float64) if holes else found

    def _vector_dtype(self, name: str) -> np.dtype[Any]:
        found = _numpy_type(self._type(name).value_type)
        if found.kind == "f":
            return found
        columns = (batch.column(0) for batch in self.batches([name]))
        holes = any(column.null_count or column.flatten().null_count for column in columns)
        return np.dtype(np.float64) if holes else found


def _kind(kind: Any) -> Kind:
    """What an Arrow type is for us."""
    import pyarrow as pa

    t = pa.types
    if t.is_integer(kind):
        return Kind("whole", str(kind))
    if t.is_floating(kind) or t.is_decimal(kind):
        return Kind("fraction", str(kind))
    if t.is_boolean(kind):
        return Kind("flag", str(kind))
    if t.is_string(kind) or t.is_large_string(kind) or t.is_string_view(kind):
        return Kind("text", str(kind))
    if t.is_binary(kind):
        return Kind("bytes", str(kind))
    lists = t.is_list(kind) or t.is_large_list(kind) or t.is_fixed_size_list(kind)
    if lists and _kind(kind.value_type).is_number:
        return Kind("vector", str(kind))
    return Kind("other", str(kind))


def _numpy_type(kind: Any) -> np.dtype[Any]:
    import pyarrow as pa

    return np.dtype(np.float64 if pa.types.is_decimal(kind) else kind.to_pandas_dtype())


def _numbers(column: Any) -> NDArray[Any]:
    import pyarrow as pa

    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_decimal(column.type) or (column.null_count and pa.types.is_boolean(column.type)):
        column = column.cast(pa.float64())
    values: NDArray[Any] = column.to_numpy(zero_copy_only=False)  # empty cells become NaN
    return values


def _plain_list(column: Any) -> Any:
    """A list of variable length: fixed lists keep numbers where they are empty."""
    import pyarrow as pa

    if pa.types.is_fixed_size_list(column.type):
        return column.cast(pa.large_list(column.type.value_type))
    return column
