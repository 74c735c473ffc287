"""Open a table: csv, tsv, parquet and feather files, and tables in memory."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from unbend.disk import has_arrow, need_arrow
from unbend.tables.arrow import ArrowTable
from unbend.tables.delimited import open_delimited
from unbend.tables.plain import PlainTable, column_of_series
from unbend.tables.table import Table

__all__ = ["TABLE_SUFFIXES", "is_table", "open_table"]

_DELIMITED = (".csv", ".tsv")
_ARROW = (".feather", ".arrow", ".ipc")
TABLE_SUFFIXES = (*_DELIMITED, ".parquet", *_ARROW)
_ROWS = 1 << 16  # per batch


def is_table(X: Any) -> bool:
    """Whether an object is a table in memory: pandas, polars, Arrow, or anything like them."""
    if hasattr(X, "iloc") and hasattr(X, "columns"):
        return True
    if type(X).__name__ == "Series":
        return False
    if type(X).__module__.partition(".")[0] == "polars":
        return type(X).__name__ in ("DataFrame", "LazyFrame")
    if _is_hugging_face(X):
        return True
    return hasattr(X, "__arrow_c_stream__") or type(X).__name__ == "RecordBatch"


def open_table(spec: Any) -> Table:
    """Open a file with one of :data:`TABLE_SUFFIXES`, or a table in memory."""
    table = _open_file(Path(spec)) if isinstance(spec, (str, Path)) else _open_object(spec)
    names = table.columns
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ValueError(f"{table.what} has several columns called {twice!r}; rename them")
    if not names:
        raise ValueError(f"{table.what} has no columns; store numbers or image paths")
    return table


def _open_file(path: Path) -> Table:
    kind = path.suffix.lower()
    if kind in _DELIMITED:
        return open_delimited(path)
    need_arrow(f"{str(path)!r}")
    return _open_parquet(path) if kind == ".parquet" else _open_feather(path)


def _open_parquet(path: Path) -> Table:
    import pyarrow as pa
    import pyarrow.parquet as pq

    def batches(columns: list[str]) -> Iterator[Any]:
        # Read a single file; do not let pyarrow guess partitions from the path.
        try:
            file = pq.ParquetFile(path)
            yield from file.iter_batches(batch_size=_ROWS, columns=columns)
        except (pa.ArrowException, OSError) as error:
            raise _damage(path, error) from error

    try:
        file = pq.ParquetFile(path)
        schema, n = file.schema_arrow, file.metadata.num_rows
    except (pa.ArrowException, OSError) as error:
        raise _damage(path, error) from error
    index = _pandas_index(schema)
    return ArrowTable(
        f"{str(path)!r}", schema.names, n, index, schema=schema, batches=_ordered(batches)
    )


def _open_feather(path: Path) -> Table:
    import pyarrow as pa

    try:
        with pa.memory_map(str(path)) as file:
            table = pa.ipc.open_file(file).read_all()
    except (pa.ArrowException, OSError) as error:
        raise _damage(path, error) from error
    return _of_arrow(table, f"{str(path)!r}", _pandas_index(table.schema))


def _damage(path: Path, error: Exception) -> ValueError:
    text = (str(error).splitlines() or [type(error).__name__])[0]
    return ValueError(f"{str(path)!r} is damaged or not a valid {path.suffix} file ({text})")


def _ordered(batches: Any) -> Any:
    """Columns of each batch in the order in which they were asked for."""

    def ordered(columns: list[str]) -> Iterator[Any]:
        for batch in batches(columns):
            yield batch.select(columns)

    return ordered


def _pandas_index(schema: Any) -> str | None:
    """The column that pandas stored its index in, if it is a single column."""
    stored = (schema.metadata or {}).get(b"pandas")
    if stored is None:
        return None
    try:
        columns = json.loads(stored)["index_columns"]
    except (ValueError, KeyError, TypeError):
        return None
    named = [name for name in columns if isinstance(name, str) and name in schema.names]
    return named[0] if len(columns) == len(named) == 1 else None


# ---------------------------------------------------------------------- in memory


def _open_object(X: Any) -> Table:
    is_pandas = hasattr(X, "iloc") and hasattr(X, "columns")
    if is_pandas and not has_arrow():
        return _open_pandas_plainly(X)
    need_arrow("a table in memory other than that of pandas")
    import pyarrow as pa

    if _is_hugging_face(X):
        X = X.with_format("arrow")[:]
    if hasattr(X, "collect") and not hasattr(X, "columns_to_numpy"):
        X = X.collect() if type(X).__name__ == "LazyFrame" else X
    try:
        if is_pandas:
            return _open_pandas(X)
        if type(X).__name__ == "RecordBatch" and isinstance(X, pa.RecordBatch):
            table = pa.Table.from_batches([X])
        else:
            table = X if isinstance(X, pa.Table) else pa.table(X)
    except (pa.ArrowException, TypeError) as error:
        reason = " ".join(str(error).split())[:200]
        raise ValueError(
            f"a column of the table holds values of different types ({reason}); convert it"
        ) from error
    return _of_arrow(table, "the table", _pandas_index(table.schema))


def _open_pandas(X: Any) -> Table:
    import pyarrow as pa

    frame = X.set_axis([str(name) for name in X.columns], axis=1)
    table = pa.Table.from_pandas(frame, preserve_index=False).replace_schema_metadata(None)
    return _of_arrow(table, "the table", None, _index_names(X))


def _open_pandas_plainly(X: Any) -> Table:
    columns = [str(name) for name in X.columns]
    data = {name: column_of_series(X.iloc[:, j]) for j, name in enumerate(columns)}
    return PlainTable("the table", columns, len(X), names=_index_names(X), data=data)


def _index_names(X: Any) -> list[str] | None:
    """The index of a pandas table as names; None if it only counts the rows."""
    if type(X.index).__name__ == "RangeIndex" and X.index.start == 0 and X.index.step == 1:
        return None
    several = getattr(X.index, "nlevels", 1) > 1
    return [("/".join(map(str, label)) if several else str(label)) for label in X.index]


def _of_arrow(table: Any, what: str, index: str | None, names: list[str] | None = None) -> Table:
    def batches(columns: list[str]) -> Iterator[Any]:
        yield from table.select(columns).to_batches(max_chunksize=_ROWS)

    return ArrowTable(
        what, table.column_names, table.num_rows, index, names, schema=table.schema, batches=batches
    )


def _is_hugging_face(X: Any) -> bool:
    return type(X).__module__.startswith("datasets.") and hasattr(X, "with_format")
