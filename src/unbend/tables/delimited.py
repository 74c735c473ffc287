"""Read csv and tsv files: any usual separator, with or without a header, with or without Arrow."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from unbend.disk import has_arrow
from unbend.pixels.decode import EXTENSIONS
from unbend.tables.arrow import ArrowTable
from unbend.tables.plain import NULLS, PlainTable, column_of_cells, parse_vector
from unbend.tables.table import Table

__all__ = ["open_delimited"]

_BYTE_ORDER_MARKS = {b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}


def open_delimited(path: Path) -> Table:
    """Open a csv or tsv file; the separator of a csv file is the one of its first line.

    The first line is a header unless all its cells are numbers or one is an image file's name;
    without a header the columns are called "0", "1", ...
    """
    encoding = _encoding(path)
    first, separator, skip = _first_line(path, encoding)
    form = (separator, encoding)
    bare = _is_data(first)
    names = [str(i) for i in range(len(first))] if bare else [name.strip() for name in first]
    names = [name or f"unnamed {i}" for i, name in enumerate(names)]
    skip = 0 if bare else skip
    if not has_arrow():
        return _open_plain(path, names, form, bare)
    table = _parse_vectors(_read(path, names, form, skip))

    def texts(column: str) -> list[str]:
        import pyarrow as pa

        found = _read(path, names, form, skip, column)
        cells = found.column(column).cast(pa.binary()).to_pylist()
        return [cell.decode("utf-8", "surrogateescape") for cell in cells]

    def batches(columns: list[str]) -> Iterator[Any]:
        yield from table.select(columns).to_batches(max_chunksize=1 << 16)

    return ArrowTable(
        f"{str(path)!r}", names, table.num_rows, schema=table.schema, batches=batches, texts=texts
    )


def _open_plain(path: Path, names: list[str], form: tuple[str, str], bare: bool) -> Table:
    """Read the file with Python's csv module."""
    separator, encoding = form
    try:
        with _open_text(path, encoding) as file:
            rows = csv.reader(file, delimiter=separator)
            if not bare:
                next(row for row in rows if row)
            found = []
            for row in rows:
                if row and len(row) != len(names):
                    raise _wrong_length(path, rows.line_num, len(row), len(names))
                if row:
                    found.append(row)
    except csv.Error as error:
        raise ValueError(f"{str(path)!r} is not a csv file ({error})") from error
    columns = [list(column) for column in zip(*found, strict=True)] or [[] for _ in names]
    cells = dict(zip(names, columns, strict=True))
    data = {name: column_of_cells(column) for name, column in cells.items()}
    return PlainTable(f"{str(path)!r}", names, len(found), data=data, cells=cells)


def _encoding(path: Path) -> str:
    with open(path, "rb") as file:
        return _BYTE_ORDER_MARKS.get(file.read(2), "utf-8")


def _first_line(path: Path, encoding: str) -> tuple[list[str], str, int]:
    """Cells of the first line that is not empty, the separator, and the lines up to there."""
    try:
        with _open_text(path, encoding) as file:
            lines = [line for line in file.read(1 << 16).splitlines() if line.strip()][:2]
            if not lines:
                raise ValueError(f"{str(path)!r} is empty; give one sample per line")
            separator = "\t" if path.suffix.lower() == ".tsv" else _separator(lines)
            file.seek(0)
            rows = csv.reader(file, delimiter=separator)
            return next(row for row in rows if row), separator, rows.line_num
    except csv.Error as error:
        raise ValueError(f"{str(path)!r} is not a csv file ({error})") from error
    except UnicodeError as error:
        raise ValueError(f"{str(path)!r} is not {encoding} text ({error})") from error


def _open_text(path: Path, encoding: str) -> IO[str]:
    known = "utf-8-sig" if encoding == "utf-8" else encoding
    return open(path, newline="", encoding=known, errors="surrogateescape")


def _separator(lines: list[str]) -> str:
    """A comma, or else the sign that occurs equally often in the first two lines."""
    for separator in ",;\t|":
        counts = {line.count(separator) for line in lines}
        if separator == "," and lines[0].count(","):
            return separator
        if len(lines) == 2 and len(counts) == 1 and counts != {0}:
            return separator
    return ","


def _is_data(cells: list[str]) -> bool:
    """Whether the first line is a sample rather than names of columns."""
    return any(c.lower().endswith(EXTENSIONS) for c in cells) or all(map(_is_number, cells))


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _read(
    path: Path, names: list[str], form: tuple[str, str], skip: int, column: str | None = None
) -> Any:
    """The whole table with guessed types, or one column as it is written."""
    import pyarrow as pa
    from pyarrow import csv as reader

    separator, encoding = form
    size = max(1 << 20, min(path.stat().st_size + 1, 1 << 28))  # types are guessed from one block
    chosen: dict[str, Any] = {"null_values": list(NULLS)}
    if column is not None:
        chosen = {"include_columns": [column], "column_types": {column: pa.binary()}}
        chosen |= {"strings_can_be_null": False, "null_values": []}
    try:
        return reader.read_csv(
            path,
            reader.ReadOptions(
                column_names=names, skip_rows_after_names=skip, block_size=size, encoding=encoding

            ),
            reader.ParseOptions(delimiter=separator, newlines_in_values=True),
            reader.ConvertOptions(check_utf8=False, **chosen),
        )  # fmt: skip
    except (pa.ArrowException, OSError) as error:
        raise _diagnose(path, form, len(names), error) from error


def _parse_vectors(table: Any) -> Any:
    """Columns of lists such as ``[0.1, 0.2]``, as pandas writes them, become columns of vectors."""
    import pyarrow as pa

    for i, name in enumerate(table.column_names):
        column = table.column(i)
        known = column.drop_null()
        if not pa.types.is_string(column.type) or not len(known) or not _is_list(known[0]):
            continue
        cells = (None if cell is None else parse_vector(cell) for cell in column.to_pylist())
        with suppress(ValueError):  # a text in brackets
            table = table.set_column(i, name, pa.array(cells, pa.list_(pa.float64())))
    return table


def _is_list(cell: Any) -> bool:
    text = cell.as_py().strip()
    return bool(text.startswith("[") and text.endswith("]"))


def _diagnose(path: Path, form: tuple[str, str], width: int, error: Exception) -> ValueError:
    """An error that names the wrong line, which Arrow's message does not."""
    separator, encoding = form
    try:
        with _open_text(path, encoding) as file:
            rows = csv.reader(file, delimiter=separator)
            for row in rows:
                if row and len(row) != width:
                    return _wrong_length(path, rows.line_num, len(row), width)
    except csv.Error as wrong:
        return ValueError(f"{str(path)!r} is not a csv file ({wrong})")
    text = " ".join(str(error).split())[:200]
    return ValueError(f"{str(path)!r} is not a csv file ({text})")


def _wrong_length(path: Path, line: int, found: int, width: int) -> ValueError:
    return ValueError(
        f"line {line} of {str(path)!r} has {found} cells instead of {width}; put quotes around "
        "cells with commas"
    )
