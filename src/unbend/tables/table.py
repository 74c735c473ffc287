"""A table from any source: its columns, and its rows in batches."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["Table", "near_names", "shorten"]

_MAX_NAMES = 12


@dataclass(frozen=True)
class Table:
    """Columns of a file or of an object in memory.

    Attributes
    ----------
    what : str
        Its name in messages.
    schema : pyarrow.Schema
    n : int
        Number of rows.
    batches : callable
        From a list of column names to record batches of these columns, in the order of the rows.
    index : str or None
        The column that is the index of a pandas table.
    texts : callable or None
        From a column name to its cells as written, for formats that store text only.
    names : sequence of str or None
        Index of a table in memory.
    """

    what: str
    schema: Any
    n: int
    batches: Callable[[list[str]], Iterator[Any]]
    index: str | None = None
    texts: Callable[[str], list[str]] | None = None
    names: Sequence[str] | None = None

    @property
    def columns(self) -> list[str]:
        """Names of the columns."""
        return list(self.schema.names)

    def type_of(self, name: str) -> Any:
        """The Arrow type of a column; a dictionary counts as its values."""
        import pyarrow as pa

        kind = self.schema.field(name).type
        return kind.value_type if pa.types.is_dictionary(kind) else kind

    def values(self, name: str) -> list[Any]:
        """The values of a column; cells of a csv file are text, as they are written."""
        self.check_names([name])
        if self.texts is not None:
            return self.texts(name)
        return [v for batch in self.batches([name]) for v in batch.column(0).to_pylist()]

    def check_names(self, names: Sequence[str], option: str = "") -> None:
        """Raise a ValueError that suggests near names if there is no such column."""
        for name in names:
            if name not in self.columns:
                option = f"{option}: " if option else ""
                raise ValueError(
                    f"{option}{self.what} has no column {name!r}; {near_names(name, self.columns)}"
                )


def near_names(name: str, known: Sequence[str]) -> str:
    """What to say about an unknown name: the nearest name, and all there are.

    >>> near_names("lable", ["label", "x"])
    "did you mean 'label'? it holds: label, x"
    """
    near = difflib.get_close_matches(name.lower(), [k.lower() for k in known], 1, 0.6)
    real = next((k for k in known if near and k.lower() == near[0]), None)
    return (f"did you mean {real!r}? " if real else "") + f"it holds: {shorten(known)}"


def shorten(names: Sequence[str], most: int = _MAX_NAMES, *, total: bool = True) -> str:
    """Names with commas; a long list is cut in the middle, with its length if ``total``.

    >>> shorten([f"x{i}" for i in range(99)], 4)
    'x0, x1, x2, ..., x98 (99 in all)'
    """
    cut = [n if len(n) <= 40 else f"{n[:37]}..." for n in map(str, names)]
    if len(cut) <= most:
        return ", ".join(cut) or "nothing"
    text = f"{', '.join(cut[: most - 1])}, ..., {cut[-1]}"
    return f"{text} ({len(cut)} in all)" if total else text
