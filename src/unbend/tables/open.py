"""Open a table: csv, tsv, parquet and feather files, and tables in memory."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from unbend.disk import need_arrow
from unbend.tables.delimited import open_delimited
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
    if type(X).__module__.partition(".")[0] == "polars":
        return type(X).__name__ in ("DataFrame", "LazyFrame")
    if _is_hugging_face(X):
        return True
    return hasattr(X, "__arrow_c_stream__") or type(X).__name__ == "RecordBatch"


def open_table(spec: Any) -> Table:
    """Open a file with one of :data:`TABLE_SUFFIXES`, or a table in memory."""
    need_arrow(f"{str(spec)!r}" if isinstance(spec, (str, Path)) else "a table in memory")
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
    return Table(f"{str(path)!r}", schema, n, _ordered(batches), _pandas_index(schema))


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
    import pyarrow as pa

    if _is_hugging_face(X):
        X = X.with_format("arrow")[:]
    if hasattr(X, "collect") and not hasattr(X, "columns_to_numpy"):
        X = X.collect() if type(X).__name__ == "LazyFrame" else X
    try:
        if hasattr(X, "iloc") and hasattr(X, "columns"):
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
    plain = type(X.index).__name__ == "RangeIndex" and X.index.start == 0 and X.index.step == 1
    several = getattr(X.index, "nlevels", 1) > 1
    names = [("/".join(map(str, label)) if several else str(label)) for label in X.index]
    return _of_arrow(table, "the table", None, None if plain else names)


def _of_arrow(table: Any, what: str, index: str | None, names: list[str] | None = None) -> Table:
    def batches(columns: list[str]) -> Iterator[Any]:
        yield from table.select(columns).to_batches(max_chunksize=_ROWS)

    return Table(what, table.schema, table.num_rows, batches, index, names=names)


def _is_hugging_face(X: Any) -> bool:
    return type(X).__module__.startswith("datasets.") and hasattr(X, "with_format")
