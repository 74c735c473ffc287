"""Recognise tables that list image paths, and read single columns."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from unbend.pixels.decode import EXTENSIONS
from unbend.tables import Table

__all__ = ["path_column", "read_column", "read_paths"]

_ROWS_TO_CHECK = 20
_MIN_EMBEDDING = 8  # a table with this many columns of fractions holds embeddings


def path_column(table: Table) -> str | None:
    """The column of image paths, if the table is a list of images; else None.

    That is the column ``path``, or the first column whose cells end like image files. If the table
    also has vectors or many columns of fractions, these are the samples and paths only name them.
    """
    holds = {name: table.kind_of(name).holds for name in table.columns}
    fractions = sum(kind == "fraction" for kind in holds.values())
    if "vector" in holds.values() or fractions >= _MIN_EMBEDDING:
        return None
    if "path" in holds:
        return "path" if holds["path"] == "text" or table.n == 0 else None
    for name in (name for name, kind in holds.items() if kind in ("text", "bytes")):
        cells = table.first_cells(name, _ROWS_TO_CHECK)
        if cells and sum(c.lower().endswith(EXTENSIONS) for c in cells) > len(cells) / 2:
            return name
    return None


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
