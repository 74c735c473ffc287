"""The table of labels: one row per sample, written in pieces, as csv or parquet."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from unbend.disk import atomic_open, has_arrow, need_arrow

__all__ = [
    "LabelRows",
    "labels_file",
    "labels_files",
    "needs_mark",
    "needs_quote",
    "read_labels",
    "unquoted",
    "write_csv",
]

_FORMULA = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")  # also in full width
COLUMNS = ("sample", "cluster", "probability", "outlier_score")


@dataclass(frozen=True)
class LabelRows:
    """Consecutive rows of the table, in the order of the samples.

    ``all_probabilities`` (m, k), when given, adds a column ``p0``, ``p1``, ... per cluster; with
    ``clusters`` they are called by those numbers. Corrected labels have ``names`` and ``before``,
    the cluster that the run gave.
    """

    samples: Sequence[str]
    labels: NDArray[np.int64]
    probability: NDArray[np.floating]
    outlier_score: NDArray[np.floating]
    all_probabilities: NDArray[np.floating] | None = None
    clusters: Sequence[int] | None = None
    names: Sequence[str] | None = None
    before: NDArray[np.int64] | None = None

    def __post_init__(self) -> None:
        lengths = {len(self.samples), len(self.labels), len(self.probability)}
        if lengths != {len(self.outlier_score)}:
            raise ValueError(f"columns of labels must be equally long, got {sorted(lengths)}")

    @property
    def columns(self) -> list[str]:
        """Column names."""
        return [name for name, _ in self.table()]

    def table(self) -> list[tuple[str, Any]]:
        """Name and content of every column."""
        found: list[tuple[str, Any]] = [("sample", self.samples), ("cluster", self.labels)]
        if self.names is not None:
            found.append(("name", self.names))
        found += [("probability", self.probability), ("outlier_score", self.outlier_score)]
        if self.before is not None:
            found.append(("cluster_before", self.before))
        if self.all_probabilities is not None:
            numbers = self.clusters or range(self.all_probabilities.shape[1])
            columns = ("p_noise" if q < 0 else f"p{q}" for q in numbers)
            found += zip(columns, self.all_probabilities.T, strict=True)
        return found


Write = Callable[[LabelRows], None]


@contextmanager
def labels_file(path: str | Path, *, mark: bool = False) -> Iterator[Write]:
    """Write labels in pieces; the file appears when the block ends without an error.

    Parameters
    ----------
    path : path
        The suffix sets the format: ``.csv`` or ``.parquet``.
    mark : bool
        Start a csv file with the UTF-8 byte order mark; without it spreadsheets misread non-ASCII
        names. Read such files with ``encoding="utf-8-sig"``, which works with or without it.
    """
    path = Path(path)
    if path.suffix == ".csv":
        with atomic_open(path) as file:
            yield _csv_writer(file, mark)
    elif path.suffix == ".parquet":
        need_arrow(f"writing {str(path)!r}")
        with atomic_open(path) as file, _parquet_writer(file) as write:
            yield write
    else:
        raise ValueError(f"labels are written as .csv or .parquet, got {str(path)!r}; rename it")


@contextmanager
def labels_files(folder: Path, name: str, *, mark: bool) -> Iterator[Write]:
    """Write labels as ``name.csv`` and, where pyarrow is installed, also as ``name.parquet``."""
    with ExitStack() as stack:
        writers = [stack.enter_context(labels_file(folder / f"{name}.csv", mark=mark))]
        if has_arrow():
            writers.append(stack.enter_context(labels_file(folder / f"{name}.parquet")))

        def write(rows: LabelRows) -> None:
            for writer in writers:
                writer(rows)

        yield write


def needs_mark(samples: Iterable[str]) -> bool:
    """Whether some name is not ASCII, so that spreadsheets need a byte order mark."""
    return any(not name.isascii() for name in samples)


def _csv_writer(file: IO[bytes], mark: bool) -> Write:
    started = False

    def write(rows: LabelRows) -> None:
        nonlocal started
        text = io.StringIO(newline="")
        writer = csv.writer(text)
        if not started:
            text.write("\ufeff" if mark else "")
            writer.writerow(rows.columns)
        started = True
        writer.writerows(zip(*(_cells(column) for _, column in rows.table()), strict=True))
        file.write(text.getvalue().encode(errors="backslashreplace"))

    return write


@contextmanager
def _parquet_writer(file: IO[bytes]) -> Iterator[Write]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    writer: Any = None

    def write(rows: LabelRows) -> None:
        nonlocal writer
        table = pa.table({name: _arrow(column) for name, column in rows.table()})
        writer = writer or pq.ParquetWriter(file, table.schema)
        writer.write_table(table)

    try:
        yield write
    finally:
        if writer is not None:
            writer.close()


def _cells(column: Any) -> Iterable[Any]:
    """A column as csv shows it: text quoted, numbers with six digits, whole numbers as they are."""
    if not isinstance(column, np.ndarray) or column.dtype.kind not in "if":
        return map(_cell, column)
    values: list[Any] = column.tolist()
    return values if column.dtype.kind == "i" else map("{:.6f}".format, values)


def _arrow(column: Any) -> Any:
    import pyarrow as pa

    if not isinstance(column, np.ndarray) or column.dtype.kind not in "if":
        return pa.array([_unicode(text) for text in column], pa.string())
    if column.dtype.kind == "i":
        return pa.array(column, pa.int64())
    return pa.array(np.asarray(column, np.float64))


def write_csv(path: str | Path, header: Sequence[str], rows: Iterable[Iterable[Any]]) -> None:
    """Write a small csv file that spreadsheets open correctly."""
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(header)
    writer.writerows([_cell(v) if isinstance(v, str) else v for v in row] for row in rows)
    body = text.getvalue()
    with atomic_open(path) as file:
        marked = body if body.isascii() else "\ufeff" + body
        file.write(marked.encode(errors="backslashreplace"))


def read_labels(path: str | Path) -> LabelRows:
    """Read ``labels.parquet``; names and numbers are restored exactly.

    Without the file or without pyarrow, ``labels.csv`` beside it is read: numbers of six digits.
    """
    path = Path(path)
    if path.with_suffix(".csv").is_file() and not (path.is_file() and has_arrow()):
        return _read_csv(path.with_suffix(".csv"))
    if not path.is_file():
        raise ValueError(f"{str(path)!r} is missing; cluster again, or name a finished run")
    need_arrow(f"reading {str(path)!r}")
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        # No threads: if none can be started, the file would seem damaged.
        file = pq.ParquetFile(path, pre_buffer=False)
        table = file.read(columns=list(COLUMNS), use_threads=False)
        if table.column_names != list(COLUMNS) or any(c.null_count for c in table.columns):
            raise ValueError(f"it needs the columns {', '.join(COLUMNS)} without gaps")
        sample, cluster, probability, outlier = table.columns
        rows = LabelRows(
            sample.cast(pa.string()).to_pylist(),
            cluster.cast(pa.int64()).to_numpy(),
            probability.cast(pa.float64()).to_numpy(),
            outlier.cast(pa.float64()).to_numpy(),
        )
        _check_clusters(rows.labels)
        return rows
    except (pa.ArrowException, ValueError, OSError) as error:
        reason = " ".join(str(error).split()).rstrip(".")  # Arrow's end with a full stop
        raise ValueError(
            f"{str(path)!r} is damaged: {reason}; cluster again with --overwrite"
        ) from error


def _read_csv(path: Path) -> LabelRows:
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    try:
        labels = np.array([int(row["cluster"]) for row in rows], dtype=np.int64)
        _check_clusters(labels)
        return LabelRows(
            [unquoted(row["sample"]) for row in rows],
            labels,
            np.array([float(row["probability"]) for row in rows]),
            np.array([float(row["outlier_score"]) for row in rows]),
        )
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise ValueError(
            f"{str(path)!r} is damaged: {error}; cluster again with --overwrite"
        ) from error


def unquoted(text: str) -> str:
    """Undo the quote that protects names such as =1+1 from spreadsheets."""
    # Numbers with a sign were quoted once.
    quoted = text.startswith("'") and (needs_quote(text[1:]) or text[1:2] in ("+", "-"))
    return text[1:] if quoted else text


def _check_clusters(labels: NDArray[np.int64]) -> None:
    """Raise a ValueError for a cluster number below -1 or not below the number of samples.

    -1 is the label of outliers.
    """
    if len(labels) and not -1 <= int(labels.min()) <= int(labels.max()) < len(labels):
        wrong = int(labels.min()) if labels.min() < -1 else int(labels.max())
        raise ValueError(f"cluster {wrong} of {len(labels)} samples")


def _cell(text: str) -> str:
    """Quote text that a spreadsheet would run as a formula: =, +, - or @, also after blanks."""
    return f"'{text}" if needs_quote(text) else text


def needs_quote(text: str) -> bool:
    """Whether a spreadsheet may treat a cell as a formula; a number is none, with any sign."""
    if re.fullmatch(r"[+-]?\d+(\.\d+)?([eE][+-]?\d+)?", text):
        return False
    return text.lstrip().startswith(_FORMULA) or text.startswith(("\t", "\r"))


def _unicode(text: str) -> str:
    """Escape lone surrogates, which stand for file names that are not valid Unicode."""
    return text.encode(errors="backslashreplace").decode()
