"""Curation: the clusters of a run as corrected by acts, with undo and redo without limit.

Samples lie in cells and cells in groups. A merge moves cells, so it does not depend on how many
samples they hold; a move or a split changes only the cells of the samples that it names.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unbend.explore.acts import NOISE, Act, Confirm, Merge, Move, Redo, Rename, Rows, Split, Undo

__all__ = ["Curation", "Group"]


@dataclass(frozen=True)
class Group:
    """A corrected cluster."""

    id: int
    name: str
    size: int
    named: bool  # by a person


class Curation:
    """The labels of a run and the acts so far: a pure function of both.

    Original clusters keep their numbers as groups; new groups get the next free number. The
    groups merged into another one disappear.

    Parameters
    ----------
    labels : ndarray of shape (n,)
        The labels of the run, 0 … k − 1, or −1 for noise. They are copied.
    n_clusters : int, optional
        k, if some of the last clusters have no members.

    Examples
    --------
    >>> curation = Curation(np.array([0, 0, 1, 2]))
    >>> curation.apply(Merge((1, 2), into=1))
    >>> curation.labels().tolist()
    [0, 0, 1, 1]
    >>> curation.apply(Undo())
    >>> curation.labels().tolist()
    [0, 0, 1, 2]
    """

    def __init__(self, labels: NDArray[np.int64], n_clusters: int | None = None) -> None:
        k = max(int(labels.max(initial=-1)) + 1, n_clusters or 0)
        self.n, self.n_original = len(labels), k
        self.original = np.asarray(labels, dtype=np.int64)
        self.reviewed = np.zeros(len(labels), dtype=bool)
        self.count = 0  # acts so far, undo and redo included
        self._cells = np.where(self.original < 0, k, self.original).astype(np.int32)
        self._group_of = [*range(k), NOISE]  # of each cell
        self._home = {q: q for q in range(k)} | {NOISE: k}  # a cell of each group
        self._names: dict[int, str] = {}
        self._next = k
        self._done: list[tuple[Act, Callable[[], None]]] = []
        self._undone: list[Act] = []

    # ------------------------------------------------------------------ what is there

    def labels(self) -> NDArray[np.int64]:
        """The group of each sample; −1 is noise."""
        return np.asarray(self._group_of, dtype=np.int64)[self._cells]

    def groups(self) -> list[Group]:
        """All groups but noise, by number; a group may be empty."""
        sizes = self.sizes()
        return [
            Group(g, self.name(g), sizes.get(g, 0), g in self._names)
            for g in sorted(self._home)
            if g != NOISE
        ]

    def sizes(self) -> dict[int, int]:
        """Members of each group, noise included."""
        counts = np.bincount(self._cells, minlength=len(self._group_of)).tolist()
        found = dict.fromkeys(self._home, 0)
        for cell, count in enumerate(counts):
            found[self._group_of[cell]] += count
        return found

    def members(self, group: int) -> Rows:
        """The samples of a group, in ascending order."""
        self._check_group(group, noise=True)
        inside = np.asarray(self._group_of) == group
        return np.flatnonzero(inside[self._cells])

    def name(self, group: int) -> str:
        """The name of a group; "Cluster 3" if nobody gave it one."""
        return "Noise" if group == NOISE else self._names.get(group, f"Cluster {group}")

    @property
    def undoable(self) -> Act | None:
        """What ``undo`` would take back."""
        return self._done[-1][0] if self._done else None

    @property
    def redoable(self) -> Act | None:
        """What ``redo`` would do again."""
        return self._undone[-1] if self._undone else None

    # ------------------------------------------------------------------ acts

    def apply(self, act: Act) -> None:
        """Do an act; a ValueError says why it cannot be done, and then nothing has changed."""
        if isinstance(act, Undo):
            if not self._done:
                raise ValueError("there is nothing to undo")
            last, restore = self._done.pop()
            restore()
            self._undone.append(last)
        elif isinstance(act, Redo):
            if not self._undone:
                raise ValueError("there is nothing to redo")
            again = self._undone.pop()
            self._done.append((again, self._do(again)))
        else:
            self._done.append((act, self._do(act)))
            self._undone.clear()
        self.count += 1

    def check(self, act: Act) -> None:
        """Raise a ValueError if the act cannot be done."""
        if isinstance(act, Undo | Redo):
            missing = self.undoable if isinstance(act, Undo) else self.redoable
            if missing is None:
                raise ValueError(f"there is nothing to {act.kind}")
        elif isinstance(act, Merge):
            self._check_merge(act)
        elif isinstance(act, Split):
            self._check_split(act)
        elif isinstance(act, Rename):
            self._check_group(act.group)
        elif isinstance(act, Move) and act.to is not None:
            self._check_group(act.to, noise=True)

    def _do(self, act: Act) -> Callable[[], None]:
        """Do an act and return what takes it back."""
        self.check(act)
        if isinstance(act, Merge):
            return self._merge(act)
        if isinstance(act, Split):
            return self._split(act)
        if isinstance(act, Rename):
            return self._rename(act)
        if isinstance(act, Move):
            return self._move(act)
        assert isinstance(act, Confirm)
        return self._review(act.rows)

    def _merge(self, act: Merge) -> Callable[[], None]:
        gone = [g for g in act.groups if g != act.into]
        cells = [c for c, g in enumerate(self._group_of) if g in set(gone)]
        before = [self._group_of[c] for c in cells]
        homes = {g: self._home.pop(g) for g in gone}
        names = {g: self._names.pop(g) for g in gone if g in self._names}
        for cell in cells:
            self._group_of[cell] = act.into

        def restore() -> None:
            for cell, group in zip(cells, before, strict=True):
                self._group_of[cell] = group
            self._home.update(homes)
            self._names.update(names)

        return restore

    def _split(self, act: Split) -> Callable[[], None]:
        restores = [self._put(rows, self._new_group()) for rows in act.parts]

        def restore() -> None:
            for back in reversed(restores):
                back()
                self._drop_group()

        return restore

    def _rename(self, act: Rename) -> Callable[[], None]:
        before = self._names.pop(act.group, None)
        if act.name:
            self._names[act.group] = act.name

        def restore() -> None:
            self._names.pop(act.group, None)
            if before is not None:
                self._names[act.group] = before

        return restore

    def _move(self, act: Move) -> Callable[[], None]:
        new = act.to is None
        target = self._new_group() if act.to is None else act.to
        seen = self._review(act.rows)
        back = self._put(act.rows, target)

        def restore() -> None:
            back()
            seen()
            if new:
                self._drop_group()

        return restore

    def _review(self, rows: Rows) -> Callable[[], None]:
        before = self.reviewed[rows]
        self.reviewed[rows] = True

        def restore() -> None:
            self.reviewed[rows] = before

        return restore

    def _put(self, rows: Rows, group: int) -> Callable[[], None]:
        before = self._cells[rows]
        self._cells[rows] = self._home[group]

        def restore() -> None:
            self._cells[rows] = before

        return restore

    def _new_group(self) -> int:
        group, self._next = self._next, self._next + 1
        self._home[group] = len(self._group_of)
        self._group_of.append(group)
        return group

    def _drop_group(self) -> None:
        """Take back the last :meth:`_new_group`; acts are taken back in reverse order."""
        self._next -= 1
        del self._home[self._next]
        self._group_of.pop()

    # ------------------------------------------------------------------ checks

    def _check_group(self, group: int, *, noise: bool = False) -> None:
        if group not in self._home or (group == NOISE and not noise):
            raise ValueError(f"there is no cluster {group}; it may have been merged")

    def _check_merge(self, act: Merge) -> None:
        if len(set(act.groups)) < 2 or len(set(act.groups)) != len(act.groups):
            raise ValueError("`groups` of a merge must be two different clusters or more")
        if act.into not in act.groups:
            raise ValueError(f"`into` must be one of the merged clusters, got {act.into}")
        for group in act.groups:
            self._check_group(group)

    def _check_split(self, act: Split) -> None:
        self._check_group(act.group)
        rows = np.concatenate(act.parts)
        if len(np.unique(rows)) != len(rows):
            raise ValueError("the parts of a split must not share samples")
        groups = np.asarray(self._group_of)[self._cells[rows]]
        if (groups != act.group).any():
            raise ValueError(f"all samples of a split must lie in cluster {act.group}")
        if len(rows) == self.sizes()[act.group]:
            raise ValueError(f"a split must leave some samples in cluster {act.group}")
