"""A table from any source: the kinds of its columns, and their content."""

from __future__ import annotations

import difflib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from numpy.typing import NDArray

__all__ = ["Kind", "Table", "near_names", "shorten"]

_MAX_NAMES = 12


@dataclass(frozen=True)
class Kind:
    """What a column holds, and its type as the format calls it, for messages."""

    holds: Literal["whole", "fraction", "flag", "text", "bytes", "vector", "other"]
    type: str

    @property
    def is_number(self) -> bool:
        """Whether the column holds numbers or booleans."""
        return self.holds in ("whole", "fraction", "flag")


@dataclass(frozen=True)
class Table(ABC):
    """Columns of a file or of an object in memory.

    Attributes
    ----------
    what : str
        Its name in messages.
    columns : list of str
        Names of the columns.
    n : int
        Number of rows.
    index : str or None
        The column that is the index of a pandas table.
    names : sequence of str or None
        Index of a table in memory.
    """

    what: str
    columns: list[str]
    n: int
    index: str | None = None
    names: Sequence[str] | None = None

    @property
    def is_written(self) -> bool:
        """Whether the file stores text only, as csv does, so that values are cells as written."""
        return False

    @abstractmethod
    def kind_of(self, name: str) -> Kind:
        """What a column holds."""

    @abstractmethod
    def values(self, name: str) -> list[Any]:
        """The values of a column; cells of a csv file are text, as they are written."""

    @abstractmethod
    def array(self, name: str) -> NDArray[Any]:
        """A column of numbers or texts; an empty cell is NaN or None."""

    @abstractmethod
    def first_cells(self, name: str, most: int) -> list[str]:
        """The first cells of a column as text."""

    @abstractmethod
    def numbers(self, names: list[str]) -> NDArray[Any]:
        """Columns of numbers as an array (n, p); an empty cell is NaN."""

    @abstractmethod
    def vectors(self, name: str) -> NDArray[Any]:
        """A column of lists as an array (n, p); an empty cell is a row of NaN."""

    def check_names(self, names: Sequence[str], option: str = "") -> None:
        """Raise a ValueError that suggests near names if there is no such column."""
        for name in names:
            if name not in self.columns:
                option = f"{option}: " if option else ""
                raise ValueError(
                    f"{option}{self.what} has no column {name!r}; {near_names(name, self.columns)}"
                )

    def lengths_differ(self, name: str, row: int, found: int, width: int) -> ValueError:
        """The error for vectors of different lengths."""
        return ValueError(
            f"row {row} of {name!r} in {self.what} has {found} numbers, others have {width}; all "
            "rows must be equally long"
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
    if len(cut) <= most + 1:  # the dots stand for two names at least
        return ", ".join(cut) or "nothing"
    text = f"{', '.join(cut[: most - 1])}, ..., {cut[-1]}"
    return f"{text} ({len(cut)} in all)" if total else text
