"""Read tables: of numbers, of vectors, of texts, or of the paths of images."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from unbend.exceptions import UnbendWarning
from unbend.pixels.folders import Listing
from unbend.sources.columns import path_column, read_paths
from unbend.sources.from_arrays import array_source
from unbend.sources.from_files import read_listing, text_source
from unbend.sources.matrices import check_input_array
from unbend.sources.options import ReadOptions
from unbend.sources.rows import row_names
from unbend.sources.source import Source, short_name
from unbend.tables import Table, choose_columns, open_table, read_features

__all__ = ["read_table", "read_table_file"]


def read_table_file(path: Path, key: str | None, options: ReadOptions) -> Source:
    """A table on disk; ``key`` names the column to take, as in ``file.parquet:key``."""
    table = open_table(path)
    if options.columns is None and options.text is None:
        if key is not None:
            table.check_names([key])
            options = replace(options, columns=[key])
        elif (column := path_column(table)) is not None:
            return _read_image_list(path, table, column, options)
    return read_table(table, short_name(path), options)


def _read_image_list(path: Path, table: Table, column: str, options: ReadOptions) -> Source:
    """The images whose paths, relative to the table, are in a column."""
    if options.id not in (None, column):
        table.check_names([options.id], "--id")
    listing = Listing(path.parent, read_paths(table, column), [])
    ids = None if options.id is None else _ids(table, options.id)
    source = read_listing(path, listing, options, table, ids)
    return replace(source, note=f"images listed in column {column!r}", reading={"id": options.id})


def read_table(table: Table, name: str, options: ReadOptions) -> Source:
    """The numbers, vectors or texts of a table."""
    if table.n == 0:
        raise ValueError(f"{table.what} has no rows; give at least one")
    labels = options.labels
    choice = choose_columns(
        table,
        columns=options.columns,
        exclude=options.exclude,
        id=options.id,
        labels=labels if isinstance(labels, str) and labels in table.columns else None,
        text=options.text,
    )
    names = _ids(table, choice.id)
    known = choice.id is not None or table.names is not None
    truth = options.true_labels(names if known else None, table=table)
    if choice.text is not None:
        return text_source(
            table.values(choice.text), names, name, table.what, options, truth,
            note=choice.note(), reading={"text": choice.text, "id": choice.id},
        )  # fmt: skip
    X = check_input_array(read_features(table, choice), table.what)
    columns = choice.features if len(choice.features) == X.shape[1] else None
    source = array_source(X, name, table.what, options, truth, names, columns)
    reading = {"columns": choice.features, "id": choice.id}
    return replace(source, note=choice.note(), reading=reading)


def _ids(table: Table, column: str | None) -> Sequence[str]:
    """The ids of all rows: a column, the index of a table in memory, or row numbers."""
    if column is None:
        return table.names if table.names is not None else row_names(table.n)
    values = table.values(column)
    empty = [i for i, value in enumerate(values) if value is None or value == ""]
    if empty:
        raise ValueError(
            f"--id: column {column!r} of {table.what} is empty in row {empty[0]}; fill it or name "
            "another"
        )
    names = [str(value) for value in values]
    if len(set(names)) < len(names):
        warnings.warn(
            f"--id: column {column!r} of {table.what} has {len(set(names))} different values in "
            f"{len(names)} rows, so some samples share a name",
            UnbendWarning,
            stacklevel=2,
        )
    return names
