"""Columns to colour by: numbers and categories of the samples."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unbend.disk import need_arrow
from unbend.report.palette import colours

__all__ = ["MOST_CATEGORIES", "Column", "as_column", "read_table"]

MOST_CATEGORIES = 255


@dataclass(frozen=True)
class Column:
    """Something to colour by: ``values`` in 0 … 254 (255 for none), and what they mean."""

    name: str
    kind: str  # "number" or "category"
    values: NDArray[np.uint8]
    low: float = 0.0
    high: float = 1.0
    categories: tuple[str, ...] = ()

    def describe(self) -> dict[str, Any]:
        """Everything but the values, as plain data."""
        return {
            "name": self.name,
            "kind": self.kind,
            "low": self.low,
            "high": self.high,
            "categories": [name[:80] for name in self.categories],
            "colours": colours(len(self.categories)),
        }


def as_column(name: str, values: Any) -> Column:
    """Numbers by their range, everything else as categories; rare ones are joined."""
    array = np.asarray(values)
    if array.dtype.kind in "fiu" and (array.dtype.kind == "f" or len(np.unique(array)) > 20):
        return _number_column(name, array.astype(np.float64))
    texts = np.array([str(v) for v in array.tolist()])
    found, codes, counts = np.unique(texts, return_inverse=True, return_counts=True)
    if len(found) > MOST_CATEGORIES:
        kept = np.sort(np.argsort(-counts, kind="stable")[: MOST_CATEGORIES - 1])
        place = np.full(len(found), len(kept))
        place[kept] = np.arange(len(kept))
        codes, found = place[codes], np.append(found[kept], "(others)")
    return Column(name, "category", codes.astype(np.uint8), categories=tuple(found.tolist()))


def _number_column(name: str, values: NDArray[np.float64]) -> Column:
    known = np.isfinite(values)
    low, high = (float(values[known].min()), float(values[known].max())) if known.any() else (0, 1)
    unit = (np.where(known, values, low) - low) / (high - low if high > low else 1.0)
    codes = np.where(known, (unit * 254).round(), 255).astype(np.uint8)
    return Column(name, "number", codes, low, high)


def read_table(path: Path, n: int) -> dict[str, Any]:
    """The columns of a ``.csv`` or ``.parquet`` file with ``n`` rows, by name."""
    need_arrow("--columns")
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet as pq

    if path.suffix.lower() not in (".csv", ".parquet"):
        raise ValueError(f"--columns must be a .csv or .parquet file, got {str(path)!r}")
    if not path.is_file():
        raise FileNotFoundError(f"no file {str(path)!r}; give a table with a row per sample")
    try:
        table = (
            pa.csv.read_csv(path)
            if path.suffix.lower() == ".csv"
            else pq.ParquetFile(path).read(use_threads=False)
        )
    except (pa.ArrowException, OSError) as error:
        text = str(error).splitlines()[0]
        raise ValueError(f"{str(path)!r} is damaged or no table ({text})") from error
    if table.num_rows != n:
        raise ValueError(
            f"{str(path)!r} has {table.num_rows} rows, the run {n} samples; give a row per sample"
        )
    plain = [c for c in table.column_names if not pa.types.is_nested(table.schema.field(c).type)]
    return {name: _values(table.column(name)) for name in plain}


def _values(column: Any) -> Any:
    """Numbers with NaN for gaps, or texts with "" for gaps."""
    import pyarrow as pa

    if pa.types.is_integer(column.type) or pa.types.is_floating(column.type):
        return column.to_numpy()
    return ["" if v is None else str(v) for v in column.to_pylist()]
