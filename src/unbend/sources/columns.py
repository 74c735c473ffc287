"""Recognise tables that list image paths, and read single columns."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from unbend.pixels.decode import EXTENSIONS
from unbend.tables import Table
from unbend.tables.choice import is_list, is_number, is_text

__all__ = ["path_column", "read_column", "read_paths"]

_ROWS_TO_CHECK = 20
_MIN_EMBEDDING = 8  # a table with this many columns of fractions holds embeddings


def path_column(table: Table) -> str | None:
    """The column of image paths, if the table is a list of images; else None.

    That is the column ``path``, or the first column whose cells end like image files. If the table
    also has vectors or many columns of fractions, these are the samples and paths only name them.
    """
    import pyarrow as pa

    kinds = {name: table.type_of(name) for name in table.columns}
    fractions = sum(pa.types.is_floating(kind) for kind in kinds.values())
    if any(is_list(kind) for kind in kinds.values()) or fractions >= _MIN_EMBEDDING:
        return None
    if "path" in kinds:
        return "path" if is_text(kinds["path"]) or table.n == 0 else None
    texts = [name for name, kind in kinds.items() if _may_be_path(kind)]
    for name in texts:
        cells = _first_cells(table, name)
        if cells and sum(c.lower().endswith(EXTENSIONS) for c in cells) > len(cells) / 2:
            return name
    return None


def _may_be_path(kind: Any) -> bool:
    import pyarrow as pa

    return is_text(kind) or (bool(pa.types.is_binary(kind)) and not is_number(kind))


def _first_cells(table: Table, name: str) -> list[str]:
    for batch in table.batches([name]):
        cells = batch.column(0)[:_ROWS_TO_CHECK].to_pylist()
        return [c.decode(errors="replace") if isinstance(c, bytes) else str(c or "") for c in cells]
    return []


def read_paths(table: Table, column: str) -> list[str]:
    """The image paths of a list."""
    values = table.values(column)
    if len(values) == 0:
        raise ValueError(f"{table.what} lists no images; give one path per row")
    for i, value in enumerate(values):
        if not isinstance(value, str) or not value or "\0" in value:
            raise ValueError(f"row {i} of {table.what} is not a path: {value!r}; remove it")
    return values


def read_column(table: Table, name: str, option: str = "") -> NDArray[Any]:
    """One column as text or numbers; an empty cell is an error."""
    table.check_names([name], option)
    values = table.values(name)
    empty = [i for i, value in enumerate(values) if value is None or value == ""]
    if empty:
        raise ValueError(
            f"row {empty[0]} of {name!r} in {table.what} is empty"
            f"{f' ({len(empty)} such rows)' if len(empty) > 1 else ''}; fill it"
        )
    return np.asarray(values)
