"""Read csv and tsv files: any usual separator, with or without a header, with or without Arrow."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

from unbend.disk import has_arrow
from unbend.pixels.decode import EXTENSIONS
from unbend.tables.arrow import ArrowTable
from unbend.tables.plain import NULLS, PlainTable, column_of_cells, parse_vector
from unbend.tables.table import Table

__all__ = ["open_delimited"]

_BYTE_ORDER_MARKS = {b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}
_WITH_COMMA = re.compile(r"[+-]?\d*,\d+(?:[eE][+-]?\d+)?")
_WITH_POINT = re.compile(r"[+-]?\d*\.\d+(?:[eE][+-]?\d+)?")
_LINES_TO_CHECK = 50


@dataclass(frozen=True)
class _Form:
    """How a file is written; ``decimal`` is the sign before the digits of a fraction."""

    encoding: str
    separator: str = ","
    decimal: str = "."


def open_delimited(path: Path) -> Table:
    """Open a csv or tsv file; separator and decimal sign are found in its first lines.

    The first line is a header unless all its cells are numbers or one is an image file's name;
    without a header the columns are called "0", "1", ... A header that is not UTF-8 is Latin-1.
    """
    first, form, skip = _first_line(path, _encoding(path))
    bare = _is_data(first, form)
    if not bare and form.encoding == "utf-8" and any(map(_has_surrogates, first)):
        first, form, skip = _first_line(path, "latin-1")
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


def _open_plain(path: Path, names: list[str], form: _Form, bare: bool) -> Table:
    """Read the file with Python's csv module."""
    try:
        with _open_text(path, form.encoding) as file:
            rows = csv.reader(file, delimiter=form.separator)
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
    data = {name: column_of_cells(column, form.decimal) for name, column in cells.items()}
    return PlainTable(f"{str(path)!r}", names, len(found), data=data, cells=cells)


def _encoding(path: Path) -> str:
    with open(path, "rb") as file:
        return _BYTE_ORDER_MARKS.get(file.read(2), "utf-8")


def _first_line(path: Path, encoding: str) -> tuple[list[str], _Form, int]:
    """Cells of the first line that is not empty, the form, and the lines up to there."""
    form = _Form(encoding)
    try:
        with _open_text(path, encoding) as file:
            lines = [line for line in file.read(1 << 16).splitlines() if line.strip()]
            if not lines:
                raise ValueError(f"{str(path)!r} is empty; give one sample per line")
            tabs = path.suffix.lower() == ".tsv"
            form = replace(form, separator="\t" if tabs else _separator(lines[:2]))
            form = replace(form, decimal=_decimal(lines[:_LINES_TO_CHECK], form.separator))
            file.seek(0)
            rows = csv.reader(file, delimiter=form.separator)
            return next(row for row in rows if row), form, rows.line_num
    except csv.Error as error:
        raise ValueError(f"{str(path)!r} is not a csv file ({error})") from error
    except UnicodeError as error:
        raise ValueError(f"{str(path)!r} is not {encoding} text ({error})") from error


def _open_text(path: Path, encoding: str) -> IO[str]:
    known = "utf-8-sig" if encoding == "utf-8" else encoding
    return open(path, newline="", encoding=known, errors="surrogateescape")


def _separator(lines: list[str]) -> str:
    """The sign between cells.

    That is a comma, or else the sign that occurs equally often in the first two lines. Commas that
    are decimal signs do not count, and a space only separates numbers.

    >>> _separator(["a,b;c", "1,2"]), _separator(["1,5;2", "1,7;3,5"]), _separator(["1.5 2", "3 4"])
    (',', ';', ' ')
    """
    for separator in ",;\t| ":
        counts = {line.count(separator) for line in lines}
        alike = len(lines) == 2 and len(counts) == 1 and counts != {0}
        if separator == "," and lines[0].count(",") and not _has_decimal_commas(lines):
            return separator
        if alike and separator != "," and (separator != " " or _are_numbers(lines[1].split(" "))):
            return separator
    return ","


def _has_decimal_commas(lines: list[str]) -> bool:
    """Whether the first line is numbers with decimal commas between semicolons or tabs."""
    for separator in ";\t":
        cells = lines[0].split(separator)
        if len(cells) > 1 and _are_numbers([cell.replace(",", ".") for cell in cells]):
            return all(len(line.split(separator)) == len(cells) for line in lines)
    return False


def _decimal(lines: list[str], separator: str) -> str:
    """A comma if fractions are written with commas only, as much of Europe does."""
    if separator == ",":
        return "."
    cells = [cell.strip().strip('"') for line in lines for cell in line.split(separator)]
    points = any(map(_WITH_POINT.fullmatch, cells))
    return "," if any(map(_WITH_COMMA.fullmatch, cells)) and not points else "."


def _is_data(cells: list[str], form: _Form) -> bool:
    """Whether the first line is a sample rather than names of columns."""
    files = any(c.lower().endswith(EXTENSIONS) for c in cells)
    return files or _are_numbers([cell.replace(form.decimal, ".") for cell in cells])


def _are_numbers(cells: list[str]) -> bool:
    try:
        return bool([float(cell) for cell in cells])
    except ValueError:
        return False


def _has_surrogates(text: str) -> bool:
    return any("\ud800" <= sign <= "\udfff" for sign in text)


def _read(path: Path, names: list[str], form: _Form, skip: int, column: str | None = None) -> Any:
    """The whole table with guessed types, or one column as it is written."""
    import pyarrow as pa
    from pyarrow import csv as reader

    size = max(1 << 20, min(path.stat().st_size + 1, 1 << 28))  # types are guessed from one block
    chosen: dict[str, Any] = {"null_values": list(NULLS), "decimal_point": form.decimal}
    if column is not None:
        chosen = {"include_columns": [column], "column_types": {column: pa.binary()}}
        chosen |= {"strings_can_be_null": False, "null_values": []}
    try:
        return reader.read_csv(
            path,
            reader.ReadOptions(
                column_names=names, skip_rows_after_names=skip, block_size=size,
                encoding=form.encoding,
            ),
            reader.ParseOptions(delimiter=form.separator, newlines_in_values=True),
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


def _diagnose(path: Path, form: _Form, width: int, error: Exception) -> ValueError:
    """An error that names the wrong line, which Arrow's message does not."""
    try:
        with _open_text(path, form.encoding) as file:
            rows = csv.reader(file, delimiter=form.separator)
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
