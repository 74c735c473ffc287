"""Choose the columns of a table: samples, ids, and those to leave out, each with a reason."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unbend.tables.table import Table, near_names, shorten

__all__ = ["Choice", "NoNumbers", "choose_columns", "read_features", "split_names"]

_ID_NAME = re.compile(
    r"(?i)(?:.*[_\- .])?(?:id|ids|uuid|guid|rowid|index|key)|unnamed:? \d+|rownames"
)
_LABEL_NAME = re.compile(
    r"(?i)(?:true[_ ]?|gt[_ ]?|ground[_ ]?truth[_ ]?)?"
    r"(?:labels?|class|classes|class[_ ]?id|label[_ ]?id|targets?|category|y|y_true|truth)"
)
_PATH_NAMES = ("path", "file", "filename", "file_name", "image", "url")
_TEXT = "text"  # why a column is left out
_MIN_ROWS = 20  # in fewer rows, whole numbers are often unique by chance
_MAX_IDS = 2  # if more columns than this hold unique whole numbers, they are measurements


class NoNumbers(ValueError):
    """A table has no columns of numbers to take; ``texts`` are its columns of text."""

    def __init__(self, message: str, texts: list[str]) -> None:
        super().__init__(message)
        self.texts = texts


@dataclass(frozen=True)
class Choice:
    """The columns of a table by their role.

    ``features`` are columns of numbers, or one column of lists; ``left_out`` has a reason for each
    column that is not used.
    """

    features: list[str]
    id: str | None = None
    text: str | None = None
    left_out: dict[str, str] = field(default_factory=dict)

    def note(self) -> str:
        """What was taken, in one line."""
        if self.text is not None:
            parts = [f"texts from {self.text!r}"]
        else:
            s = "" if len(self.features) == 1 else "s"
            some = shorten(self.features, 5, total=False)
            parts = [f"{len(self.features)} column{s} ({some})"]
        if self.id is not None:
            parts.append(f"ids from {self.id!r}")
        by_reason: dict[str, list[str]] = {}
        for name, reason in self.left_out.items():
            hint = ", see --text" if reason == _TEXT else ""
            by_reason.setdefault(reason + hint, []).append(name)
        out = [f"{shorten(names, 5)} ({reason})" for reason, names in by_reason.items()]
        return "; ".join([*parts, f"left out: {', '.join(out)}"] if out else parts)


def split_names(text: str | Sequence[str] | None) -> list[str] | None:
    """Names of columns, from a list or from a text with commas.

    >>> split_names("a, b"), split_names(None)
    (['a', 'b'], None)
    """
    if text is None:
        return None
    if isinstance(text, str):
        text = [part.strip() for part in text.split(",")]
    return [str(name) for name in text if str(name)]


def choose_columns(
    table: Table,
    *,
    columns: str | Sequence[str] | None = None,
    exclude: str | Sequence[str] | None = None,
    id: str | None = None,
    labels: str | None = None,
    text: str | None = None,
) -> Choice:
    """Choose the samples and ids of a table.

    Columns that look like ids (whole numbers that are all different, or a name such as ``id``) or
    labels (a name such as ``label`` or ``class``) are left out unless they are named.

    Parameters
    ----------
    columns, exclude : names, optional
        Columns to take and to leave out; ``*`` stands for anything.
    id, labels, text : str, optional
        The column of ids, of true labels (never a sample), and of texts.
    """
    for option, name in (("--id", id), ("--labels", labels), ("--text", text)):
        if name is not None:
            table.check_names([name], option)
    wanted = _matching(table, columns, "--columns")
    gone = _matching(table, exclude, "--exclude") or []
    if wanted is not None:
        both = [name for name in split_names(columns) or () if name in gone]
        if both:
            raise ValueError(f"column {both[0]!r} is in --columns and in --exclude; choose one")
        wanted = [name for name in wanted if name not in gone]  # of those that * stands for
        if not wanted:
            raise ValueError("--exclude leaves none of the columns of --columns; choose others")
    left = dict.fromkeys(gone, "as asked")
    if labels is not None:
        left[labels] = "the true labels"
    id = id if id is not None else _find_id(table, {*left, *(wanted or ()), text})
    if text is not None:
        kind = table.kind_of(text)
        if kind.holds != "text":
            raise ValueError(
                f"--text: column {text!r} of {table.what} holds {kind.type}, not text; "
                f"{_text_hint(table)}"
            )
        return Choice([], id, text)
    if wanted is not None:
        _check_numbers(table, wanted)
        return Choice(wanted, id, None, left)
    return _guess(table, id, left)


def read_features(table: Table, choice: Choice) -> NDArray[Any]:
    """The chosen samples (n, p)."""
    names = choice.features
    if table.kind_of(names[0]).holds == "vector":
        return table.vectors(names[0])
    return table.numbers(names)


def _matching(table: Table, names: str | Sequence[str] | None, option: str) -> list[str] | None:
    names = split_names(names)
    if names is None:
        return None
    found: list[str] = []
    for name in names:
        match = [name] if name in table.columns else fnmatch.filter(table.columns, name)
        if not match:
            raise ValueError(
                f"{option}: {table.what} has no column {name!r}; {near_names(name, table.columns)}"
            )
        found += [m for m in match if m not in found]
    if not found:
        raise ValueError(f"{option} names no column; {near_names('', table.columns)}")
    return found


def _guess(table: Table, id: str | None, left: dict[str, str]) -> Choice:
    rest = [name for name in table.columns if name not in left and name != id]
    vectors = [name for name in rest if table.kind_of(name).holds == "vector"]
    if len(vectors) > 1:
        raise ValueError(
            f"{table.what} holds several columns of lists: {shorten(vectors)}; choose one with "
            f"--columns {vectors[0]}"
        )
    numbers = [name for name in rest if table.kind_of(name).is_number]
    if vectors:
        left |= dict.fromkeys(numbers, "beside the vectors")
        numbers = []
    for name in _label_columns(table, numbers):
        left[name] = "looks like labels"
    numbers = [name for name in numbers if name not in left]
    for name in _id_columns(table, numbers):
        left[name] = "looks like ids"
    features = vectors or [name for name in numbers if name not in left]
    others = [n for n in rest if n not in features and n not in left]
    for name in others:
        left[name] = _TEXT if table.kind_of(name).holds == "text" else "not numbers"
    if not features:
        texts = [name for name in others if left[name] == _TEXT]
        raise NoNumbers(_no_numbers_message(table, left), texts)
    return Choice(features, id, None, left)


def _no_numbers_message(table: Table, left: dict[str, str]) -> str:
    looks = [name for name, reason in left.items() if reason.startswith("looks")]
    hint = f"; {_text_hint(table)}" if _TEXT in left.values() else ""
    if looks:
        remedy = hint or f"; name the columns to take, as in --columns {looks[0]}"
        verb = "looks like ids or labels" if len(looks) == 1 else "look like ids or labels"
        return (
            f"{table.what} has no columns of numbers except {shorten(looks)}, which {verb}{remedy}"
        )
    return f"{table.what} has no columns of numbers; it holds: {shorten(table.columns)}{hint}"


def _text_hint(table: Table) -> str:
    texts = [name for name in table.columns if table.kind_of(name).holds == "text"]
    if not texts:
        return "it has no column of text"
    longest = max(texts, key=lambda name: len("".join(table.first_cells(name, 20))))
    return f"cluster texts with --text {longest}"


def _check_numbers(table: Table, names: list[str]) -> None:
    vectors = [name for name in names if table.kind_of(name).holds == "vector"]
    if vectors and len(names) > 1:
        raise ValueError(
            f"--columns: {vectors[0]!r} of {table.what} holds vectors; name only this column, or "
            "only columns of numbers"
        )
    for name in names:
        kind = table.kind_of(name)
        if not kind.is_number and kind.holds != "vector":
            raise ValueError(
                f"--columns: column {name!r} of {table.what} holds {kind.type}, not numbers; leave "
                "it out or encode it"
            )


# ---------------------------------------------------------------------- looks like


def _find_id(table: Table, taken: set[str | None]) -> str | None:
    """The index of a pandas table, or the first column with unique values named like an id."""
    if table.names is not None:
        return None  # the index of a table in memory
    if table.index is not None:
        return table.index
    named = [n for n in table.columns if n not in taken and _ID_NAME.fullmatch(n.strip())]
    paths = [n for n in table.columns if n not in taken and n.lower() in _PATH_NAMES]
    for name in (*named, *(n for n in paths if table.kind_of(n).holds == "text")):
        if table.kind_of(name).holds in ("text", "whole") and _is_unique(table.array(name)):
            return name
    return None


def _label_columns(table: Table, names: list[str]) -> list[str]:
    """Columns named like labels; ``y`` beside ``x`` is a coordinate."""
    lower = {name.lower() for name in table.columns}
    found = [n for n in names if _LABEL_NAME.fullmatch(n.strip())]
    return [n for n in found if not (n.lower() == "y" and "x" in lower)]


def _id_columns(table: Table, names: list[str]) -> list[str]:
    """Columns named like ids, and up to two of whole numbers that are all different."""
    named = [n for n in names if _ID_NAME.fullmatch(n.strip())]
    rest = [n for n in names if n not in named and table.kind_of(n).holds == "whole"]
    if table.n < _MIN_ROWS or len(rest) > 64:  # a table of counts
        return named
    unique = [n for n in rest if _is_unique(table.array(n))]
    return named + (unique if len(unique) <= _MAX_IDS else [])


def _is_unique(values: NDArray[Any]) -> bool:
    if values.dtype.kind == "O":
        return None not in values and len(set(values.tolist())) == len(values)
    return len(np.unique(values)) == len(values) and not (values != values).any()
