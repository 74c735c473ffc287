"""Acts: what a person can do to the clusters of a run, as plain checked data."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "LONGEST_NAME",
    "NOISE",
    "Act",
    "Confirm",
    "Merge",
    "Move",
    "Redo",
    "Rename",
    "Split",
    "Undo",
    "read_act",
]

NOISE = -1  # the group of samples that belong to no cluster
LONGEST_NAME = 120
_MOST_PARTS = 64

Rows = NDArray[np.int64]


@dataclass(frozen=True)
class Merge:
    """All members of ``groups`` go to ``into``, which is one of them."""

    kind: ClassVar[str] = "merge"
    groups: tuple[int, ...]
    into: int

    def to_dict(self) -> dict[str, Any]:
        """As a line of the journal."""
        return {"act": self.kind, "groups": list(self.groups), "into": self.into}


@dataclass(frozen=True)
class Split:
    """Each part leaves the group and becomes a new one; the rest stays."""

    kind: ClassVar[str] = "split"
    group: int
    parts: tuple[Rows, ...]

    def to_dict(self) -> dict[str, Any]:
        """As a line of the journal."""
        return {"act": self.kind, "group": self.group, "parts": [p.tolist() for p in self.parts]}


@dataclass(frozen=True)
class Rename:
    """The group gets a name; an empty one restores "Cluster 3"."""

    kind: ClassVar[str] = "rename"
    group: int
    name: str

    def to_dict(self) -> dict[str, Any]:
        """As a line of the journal."""
        return {"act": self.kind, "group": self.group, "name": self.name}


@dataclass(frozen=True)
class Move:
    """Samples go to another group, to noise (−1), or to a new group (None)."""

    kind: ClassVar[str] = "move"
    rows: Rows
    to: int | None

    def to_dict(self) -> dict[str, Any]:
        """As a line of the journal."""
        return {"act": self.kind, "rows": self.rows.tolist(), "to": self.to}


@dataclass(frozen=True)
class Confirm:
    """A person has looked at these samples and found them right."""

    kind: ClassVar[str] = "confirm"
    rows: Rows

    def to_dict(self) -> dict[str, Any]:
        """As a line of the journal."""
        return {"act": self.kind, "rows": self.rows.tolist()}


@dataclass(frozen=True)
class Undo:
    """Take back the last act that is not taken back yet."""

    kind: ClassVar[str] = "undo"

    def to_dict(self) -> dict[str, Any]:
        """As a line of the journal."""
        return {"act": self.kind}


@dataclass(frozen=True)
class Redo:
    """Do again what was taken back last."""

    kind: ClassVar[str] = "redo"

    def to_dict(self) -> dict[str, Any]:
        """As a line of the journal."""
        return {"act": self.kind}


Act = Merge | Split | Rename | Move | Confirm | Undo | Redo


def read_act(tree: Any, n: int) -> Act:
    """An act on ``n`` samples from untrusted data; a ValueError says what is wrong.

    >>> read_act({"act": "merge", "groups": [2, 0], "into": 0}, n=9)
    Merge(groups=(2, 0), into=0)
    """
    if not isinstance(tree, Mapping):
        raise ValueError(f"an act is an object with a field `act`, got {type(tree).__name__}")
    kind = tree.get("act")
    if kind == "merge":
        groups = tuple(_whole(g, "groups") for g in _list(tree.get("groups"), "groups"))
        return Merge(groups, _whole(tree.get("into"), "into"))
    if kind == "split":
        parts = _list(tree.get("parts"), "parts")
        if not 1 <= len(parts) < _MOST_PARTS:
            raise ValueError(f"`parts` must be 1 to {_MOST_PARTS - 1} lists, got {len(parts)}")
        return Split(_whole(tree.get("group"), "group"), tuple(_rows(p, n) for p in parts))
    if kind == "rename":
        return Rename(_whole(tree.get("group"), "group"), clean_name(tree.get("name")))
    if kind == "move":
        to = tree.get("to")
        return Move(_rows(tree.get("rows"), n), None if to is None else _whole(to, "to"))
    if kind == "confirm":
        return Confirm(_rows(tree.get("rows"), n))
    if kind in ("undo", "redo"):
        return Undo() if kind == "undo" else Redo()
    raise ValueError(
        f"`act` must be merge, split, rename, move, confirm, undo or redo, got {str(kind)[:40]!r}"
    )


def clean_name(name: Any) -> str:
    """A name on one line without control characters and without surrounding blanks."""
    if not isinstance(name, str):
        raise ValueError(f"`name` must be text, got {type(name).__name__}")
    if len(name) > 10 * LONGEST_NAME:
        raise ValueError(f"`name` must have at most {LONGEST_NAME} characters, got {len(name)}")
    # Cc: control, Cf: format (overrides of the writing direction), Cs: lone surrogates
    kept = "".join(
        " " if c.isspace() else c
        for c in name
        if c.isspace() or unicodedata.category(c) not in ("Cc", "Cf", "Cs")
    )
    text = " ".join(kept.split())
    if len(text) > LONGEST_NAME:
        raise ValueError(f"`name` must have at most {LONGEST_NAME} characters, got {len(text)}")
    return text


def _whole(value: Any, field: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or abs(value) > 2**31:
        raise ValueError(f"`{field}` must be a whole number, got {str(value)[:40]!r}")
    return value


def _list(value: Any, field: str) -> list[Any]:
    if not isinstance(value, list):
        raise ValueError(f"`{field}` must be a list, got {type(value).__name__}")
    return value


def _rows(value: Any, n: int) -> Rows:
    values = _list(value, "rows")
    if not values:
        raise ValueError("`rows` is empty; choose at least one sample")
    try:
        rows = np.array(values)
        if rows.ndim != 1 or rows.dtype.kind != "i":
            raise ValueError
    except (ValueError, OverflowError, TypeError):
        raise ValueError("`rows` must be a list of whole numbers") from None
    if rows.min() < 0 or rows.max() >= n:
        wrong = int(rows.min()) if rows.min() < 0 else int(rows.max())
        raise ValueError(f"`rows` must be from 0 to {n - 1}, got {wrong}")
    unique = np.unique(rows)
    if len(unique) != len(rows):
        raise ValueError("`rows` names a sample twice")
    return unique.astype(np.int64)
