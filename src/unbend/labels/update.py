"""New groups among samples that fit no cluster: found beside the old clusters, which stay."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unbend.labels.surroundings import Surroundings

__all__ = ["Waiting", "find_groups", "take_in"]

_MOST = 4000  # samples that wait; the oldest are forgotten first
_AT_ONCE = 5000  # the newest isolated samples, whose distances to each other are computed
# Rows of a new group are as near to some of their own as nine of ten references are to theirs.
_TIGHT, _SOME = 0.9, 5


class Waiting(NamedTuple):
    """What an update found: the group of each row or -1, and the state after it."""

    groups: NDArray[np.int64]
    surroundings: Surroundings
    waiting: Tensor  # rows that still fit nowhere
    from_before: list[int]  # rows of each new group that waited and are not among the new ones


def find_groups(around: Surroundings, placed: Tensor, least: int) -> NDArray[np.int64]:
    """Dense groups of at least ``least`` rows, numbered by falling size; -1 elsewhere.

    By DBSCAN, at the distance that samples of the fit have from each other: scattered rows that
    merely lie far from everything else do not form a group.
    """
    none = np.full(len(placed), -1)
    if len(placed) < least:
        return none
    if len(placed) > _AT_ONCE:
        none[-_AT_ONCE:] = find_groups(around, placed[-_AT_ONCE:], least)
        return none
    from sklearn.cluster import DBSCAN

    usual = max(float(torch.quantile(around.reach, _TIGHT)), 1e-9)
    finder = DBSCAN(eps=usual, min_samples=min(_SOME, least), metric="precomputed")
    found = finder.fit(around.distances(placed)).labels_
    sizes = np.bincount(found[found >= 0])
    kept = [q for q in np.argsort(-sizes, kind="stable") if sizes[q] >= least]
    for number, q in enumerate(kept):
        none[found == q] = number
    return none


def take_in(
    around: Surroundings,
    isolated: Tensor,
    waiting: Tensor,
    least: int,
    first: int,
    threshold: float,
) -> Waiting:
    """Look for groups among isolated rows and those that waited; number them from ``first``.

    A row that waits already is the same sample again, and is not counted twice. Rows that no new
    group holds, but that are not isolated any more beside one, wait no longer.

    Parameters
    ----------
    around : Surroundings
        Of the fit and of the updates so far.
    isolated, waiting : Tensor of shape (m, p) and (w, p)
        Placed rows: new ones that fit no cluster, and those of earlier updates.
    threshold : float
        The score above which a row is isolated.
    """
    w, copies = len(waiting), _copies(isolated, waiting)
    new = copies < 0
    rows = torch.cat([waiting, isolated[torch.from_numpy(new)]])
    groups = find_groups(around, rows, least)
    count = int(groups.max(initial=-1)) + 1
    numbers = np.where(groups >= 0, groups + first, -1)
    left = rows[torch.from_numpy(groups < 0)]
    if count:
        inside = torch.from_numpy(groups >= 0)
        around = around.with_references(rows[inside], torch.from_numpy(numbers)[inside])
        if len(left):
            left = left[torch.from_numpy(around.score_placed(left) > threshold)]
    positions = np.where(new, w + np.cumsum(new) - 1, copies)
    waited = groups[:w].copy()
    waited[copies[~new]] = -1
    before = np.bincount(waited[waited >= 0], minlength=count).tolist()
    return Waiting(numbers[positions], around, left[-_MOST:], before)


def _copies(rows: Tensor, others: Tensor) -> NDArray[np.int64]:
    """For each row the position of an equal one among the others, or -1."""
    known = {row.tobytes(): i for i, row in enumerate(others.numpy())}
    return np.array([known.get(row.tobytes(), -1) for row in rows.numpy()], dtype=np.int64)
