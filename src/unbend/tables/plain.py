"""Tables without pyarrow: csv files and pandas tables, as arrays in memory."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unbend.tables.table import Kind, Table

__all__ = ["NULLS", "PlainTable", "column_of_cells", "column_of_series", "parse_vector"]

# Cells that mean "no number" among numbers, as pandas, R, Excel and people write them.
NULLS = (
    "", "NA", "N/A", "n/a", "n.a.", "NaN", "nan", "NAN", "-nan", "-NaN", "null", "NULL", "None",
    "<NA>", "#N/A", "#NA", "#DIV/0!", "#VALUE!", "?", "-",
)  # fmt: skip
_FLAGS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}

# What a column holds, and its values: numbers as an array, all else as a list.
Column = tuple[Kind, Any]


@dataclass(frozen=True)
class PlainTable(Table):
    """Columns in memory; ``cells`` are those of a csv file as they are written."""

    data: dict[str, Column] = field(default_factory=dict)
    cells: dict[str, list[str]] | None = None

    @property
    def is_written(self) -> bool:
        """Whether the file stores text only."""
        return self.cells is not None

    def kind_of(self, name: str) -> Kind:
        """What a column holds."""
        return self.data[name][0]

    def values(self, name: str) -> list[Any]:
        """The values of a column; cells of a csv file are text, as they are written."""
        self.check_names([name])
        if self.cells is not None:
            return self.cells[name]
        values = self.data[name][1]
        return list(values.tolist() if isinstance(values, np.ndarray) else values)

    def array(self, name: str) -> NDArray[Any]:
        """A column of numbers or texts."""
        values = self.data[name][1]
        return values if isinstance(values, np.ndarray) else np.array(values, dtype=object)

    def first_cells(self, name: str, most: int) -> list[str]:
        """The first cells of a column as text."""
        return [str(value) if value is not None else "" for value in self.data[name][1][:most]]

    def numbers(self, names: list[str]) -> NDArray[Any]:
        """Columns of numbers as an array (n, p)."""
        return np.stack([self.data[name][1] for name in names], axis=1)

    def vectors(self, name: str) -> NDArray[Any]:
        """A column of lists as an array (n, p)."""
        rows = [None if v is None else np.asarray(v) for v in self.data[name][1]]
        width = next((len(row) for row in rows if row is not None), 0)
        for i, row in enumerate(rows):
            if row is not None and len(row) != width:
                raise self.lengths_differ(name, i, len(row), width)
        return np.stack([np.full(width, np.nan) if row is None else row for row in rows])


def column_of_cells(cells: list[str], decimal: str = ".") -> Column:
    """A column of a csv file, by what its cells look like.

    >>> column_of_cells(["1", "", "2.5"])
    (Kind(holds='fraction', type='float64'), array([1. , nan, 2.5]))
    >>> column_of_cells(["7", "8"])[0].holds, column_of_cells(["a", ""])[0].holds
    ('whole', 'text')
    """
    known = [cell for cell in cells if cell not in NULLS]
    if not known:
        return Kind("other", "null"), [None] * len(cells)
    whole = _parsed(known, int)
    if whole is not None and max(map(abs, whole)) < 2**63:
        return Kind("whole", "int64"), _filled(cells, whole)
    fractions = _parsed([cell.replace(decimal, ".") for cell in known], float)
    if fractions is not None:
        return Kind("fraction", "float64"), _filled(cells, fractions)
    if all(cell in _FLAGS for cell in known):
        return Kind("flag", "bool"), _filled(cells, [_FLAGS[cell] for cell in known])
    vectors = _parsed(known, parse_vector) if known[0].lstrip().startswith("[") else None
    if vectors is not None:
        rest = iter(vectors)
        return Kind("vector", "list"), [None if c in NULLS else next(rest) for c in cells]
    return Kind("text", "string"), cells


def _parsed(cells: list[str], parse: Callable[[str], Any]) -> list[Any] | None:
    """All cells parsed, or None; Python's own underscores in numbers are text."""
    if any("_" in cell for cell in cells) and parse is not parse_vector:
        return None
    try:
        return [parse(cell) for cell in cells]
    except ValueError:
        return None


def _filled(cells: list[str], known: list[Any]) -> NDArray[Any]:
    """The numbers of all cells, with NaN where a cell is empty."""
    if len(known) == len(cells):
        return np.array(known)
    found = np.full(len(cells), np.nan)
    found[[cell not in NULLS for cell in cells]] = known
    return found


def parse_vector(cell: str) -> list[float]:
    """Numbers in brackets, as Python lists and NumPy arrays are printed.

    >>> parse_vector("[1, 2.5]"), parse_vector("[1.  2.5]")
    ([1.0, 2.5], [1.0, 2.5])
    >>> parse_vector("[np.float64(1.0), np.float64(2.5)]")
    [1.0, 2.5]
    """
    inner = cell.strip()
    if not (inner.startswith("[") and inner.endswith("]")):
        raise ValueError(f"no list: {cell[:40]!r}")
    numbers = re.sub(r"np\.\w+\(|[),]", " ", inner[1:-1])
    return [float(part) for part in numbers.split()]


def column_of_series(series: Any) -> Column:
    """A column of a pandas table, by its dtype and, for objects, by its values."""
    dtype = series.dtype
    if type(dtype).__name__ == "CategoricalDtype":
        series = series.astype(dtype.categories.dtype)
        dtype = series.dtype
    kind, name = getattr(dtype, "kind", "O"), str(dtype)
    if kind in "iuf" or kind == "b":
        holes = bool(series.isna().any())
        values = series.to_numpy(np.float64, na_value=np.nan) if holes else series.to_numpy()
        holds = "flag" if kind == "b" else "fraction" if kind == "f" else "whole"
        return Kind(holds, name), np.asarray(values)  # type: ignore[arg-type]
    values = [None if _is_missing(v) else v for v in series.tolist()]
    known = [value for value in values if value is not None]
    if known and all(isinstance(value, str) for value in known):
        return Kind("text", name), values
    if known and all(_is_vector(value) for value in known):
        return Kind("vector", name), values
    return Kind("other", name), values


def _is_missing(value: Any) -> bool:
    if value is None or type(value).__name__ == "NAType":
        return True
    return np.ndim(value) == 0 and bool(value != value)  # NaN and NaT


def _is_vector(value: Any) -> bool:
    return (
        isinstance(value, (Sequence, np.ndarray))
        and not isinstance(value, (str, bytes))
        and np.ndim(value) == 1
        and np.asarray(value).dtype.kind in "biuf"
    )
