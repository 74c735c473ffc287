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
    from_before: list[int]  # how many rows of each new group had been waiting already


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
    around: Surroundings, isolated: Tensor, waiting: Tensor, least: int, first: int
) -> Waiting:
    """Look for groups among isolated rows and those that waited; number them from ``first``.

    Parameters
    ----------
    around : Surroundings
        Of the fit and of the updates so far.
    isolated, waiting : Tensor of shape (m, p) and (w, p)
        Placed rows: new ones that fit no cluster, and those of earlier updates.
    """
    rows = torch.cat([waiting, isolated])
    groups = find_groups(around, rows, least)
    w, count = len(waiting), int(groups.max(initial=-1)) + 1
    numbers = np.where(groups >= 0, groups + first, -1)
    inside = torch.from_numpy(groups >= 0)
    if count:
        around = around.with_references(rows[inside], torch.from_numpy(numbers)[inside])
    before = [int((groups[:w] == q).sum()) for q in range(count)]
    return Waiting(numbers[w:], around, rows[~inside][-_MOST:], before)
