"""New groups among samples that fit no cluster: found beside the old clusters, which stay."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.cluster import HDBSCAN
from torch import Tensor

from unbend.labels.surroundings import Surroundings

__all__ = ["Waiting", "find_groups", "take_in"]

_MOST = 4000  # samples that wait; the oldest are forgotten first
_CLOSE = 5  # nearest members that a group is judged by
# The members of a new group are as near to each other as nine of ten references are to theirs, or
# half as far again.
_TIGHT, _SLACK = 0.9, 1.5


class Waiting(NamedTuple):
    """What an update found: the group of each row or -1, and the state after it."""

    groups: NDArray[np.int64]
    surroundings: Surroundings
    waiting: Tensor  # rows that still fit nowhere
    from_before: list[int]  # how many rows of each new group had been waiting already


def find_groups(around: Surroundings, placed: Tensor, least: int) -> NDArray[np.int64]:
    """Dense groups of at least ``least`` rows by HDBSCAN, numbered by falling size; -1 elsewhere.

    A group counts only where its members lie about as close together as the samples of the fit
    do. Scattered rows that merely lie far from everything else are no group.
    """
    none = np.full(len(placed), -1)
    if len(placed) < max(least, 3):
        return none
    distance = around.distances(placed)
    finder = HDBSCAN(
        min_cluster_size=least, metric="precomputed", allow_single_cluster=True, copy=True
    )
    found = finder.fit(distance).labels_
    usual = _SLACK * float(torch.quantile(around.reach, _TIGHT))
    kept = [q for q in range(int(found.max()) + 1) if _closeness(distance, found == q) <= usual]
    kept.sort(key=lambda q: -int((found == q).sum()))
    for number, q in enumerate(kept):
        none[found == q] = number
    return none


def _closeness(distance: NDArray[np.float64], members: NDArray[np.bool_]) -> float:
    """The median distance of members to their nearest fellow members."""
    own = np.sort(distance[np.ix_(members, members)], axis=1)[:, 1 : _CLOSE + 1]
    return float(np.median(own.mean(axis=1)))


def take_in(
    around: Surroundings, lonely: Tensor, waiting: Tensor, least: int, first: int
) -> Waiting:
    """Look for groups among lonely rows and those that waited; number them from ``first``.

    Parameters
    ----------
    around : Surroundings
        Of the fit and of the updates so far.
    lonely, waiting : Tensor of shape (m, p) and (w, p)
        Placed rows: new ones that fit no cluster, and those of earlier updates.
    """
    rows = torch.cat([waiting, lonely])
    groups = find_groups(around, rows, least)
    w, count = len(waiting), int(groups.max(initial=-1)) + 1
    numbers = np.where(groups >= 0, groups + first, -1)
    inside = torch.from_numpy(groups >= 0)
    if count:
        around = around.with_references(rows[inside], torch.from_numpy(numbers)[inside])
    before = [int((groups[:w] == q).sum()) for q in range(count)]
    return Waiting(numbers[w:], around, rows[~inside][-_MOST:], before)
