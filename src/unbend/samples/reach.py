"""Thin manifolds: where near neighbours alone show the groups, far ones are left out.

The two nearest neighbours of a photograph of a turning object are those just before and after it.
The third is much farther and often shows another object, so that all neighbours together tie the
objects to each other. Elsewhere, most of all in many dimensions, all are about equally far.
"""

from __future__ import annotations

from itertools import groupby
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components
from torch import Tensor

from unbend.knobs import RIDGE
from unbend.samples.graph import links
from unbend.samples.neighbors import place

__all__ = ["lasting_parts", "median_reach", "within_reach"]

_FEWEST = 2  # neighbours that every sample keeps; the second says how far others may be
# How many times as far; the first of these that leaves no more than k parts is taken.
_REACH = (1.1, 1.2, 1.3, 1.5, 1.75, 2.0)
# Near neighbours have to show parts that count for half of k, for this many at least, and for this
# many more than those that all neighbours show.
_OF_K, _LEAST, _MORE = 0.5, 2.5, 0.5
_TINY = 5  # samples; a part of so few keeps all its neighbours
# Where k is not known: parts that stay the same over so many of these reaches, and are about equal.
_REACHES = (1.05, 1.1, 1.15, 1.2, 1.3, 1.4, 1.5, 1.6, 1.75, 2.0, 2.5, float("inf"))
_LASTING, _EQUAL = 4, 0.95
_AT_ONCE = 2**24  # numbers of neighbours that are looked up at a time


def within_reach(X: Tensor, neighbors: Tensor, metric: str, k: int) -> Tensor:
    r"""Neighbours without the far ones, if the near ones take the samples apart into about k.

    A neighbour is near if it is at most 1.1 times as far as the second one; where that leaves more
    than k parts of the graph, up to 2 times as far. Parts with shares :math:`p_i` of the samples
    count for :math:`\exp(-\sum_i p_i \ln p_i)`, so that splinters count little. The near
    neighbours are taken if their graph has no more than k parts and these count for at least k/2,
    at least 2.5, and at least 0.5 more than the parts of the graph of all neighbours. Otherwise all
    neighbours stay.

    The near ones are repeated in the places of the far ones, so that the shape stays the same.
    Copies of a sample stay and do not count as its neighbours. Samples in parts of five or fewer
    keep all their neighbours: a few almost equal photographs are not a group.

    Parameters
    ----------
    X : Tensor of shape (n, ...)
        Samples; images are flattened.
    neighbors : Tensor of shape (n, m)
        Neighbours of each, the nearest first.
    metric : str
        Of the neighbours, see :func:`nearest_neighbors`. For ridge metrics a small coefficient is
        far: its inverse takes the place of the distance, and copies are neighbours like others.
    k : int
        Number of clusters; with fewer than 3 all neighbours stay.

    Examples
    --------
    Three rows of samples, one beside the other. The fifth neighbour is in the next row.

    >>> from unbend.samples import nearest_neighbors
    >>> X = torch.cartesian_prod(torch.tensor([0.0, 2.8, 5.6]), torch.arange(20.0))
    >>> neighbors = nearest_neighbors(X, 5)
    >>> near = within_reach(X, neighbors, "euclidean", 3)
    >>> sorted(neighbors[5].tolist()), sorted(set(near[5].tolist()))
    ([3, 4, 6, 7, 25], [4, 6])
    """
    if k < _LEAST or neighbors.shape[1] <= _FEWEST:
        return neighbors
    least = max(_OF_K * k, _LEAST, _count(_parts(neighbors)) + _MORE)
    graphs = _Graphs.of(X, neighbors, metric)
    for reach in _REACH:
        near = graphs.within(reach)
        part = _parts(near)
        if part.max() < k:
            return near if _count(part) >= least else neighbors
    return neighbors


def lasting_parts(X: Tensor, neighbors: Tensor, metric: str) -> int:
    """The number of parts that the samples fall into, whatever counts as near; 0 if none lasts.

    A neighbour is near if it is at most 1.05 to 2.5 times as far as the second one, or in any case:
    twelve graphs, of which the last counts four times, because more neighbours would mostly say the
    same. A number of parts that is the same in four graphs one after the other lasts, if the parts,
    counted as in :func:`within_reach`, count for 0.95 of it. The number that lasts longest is
    returned, of several the largest.

    Parameters are those of :func:`within_reach`.

    Examples
    --------
    >>> from unbend.samples import nearest_neighbors
    >>> X = torch.cartesian_prod(torch.tensor([0.0, 2.8, 5.6]), torch.arange(20.0))
    >>> lasting_parts(X, nearest_neighbors(X, 5), "euclidean")
    3
    """
    if neighbors.shape[1] <= _FEWEST:
        return 0
    graphs = _Graphs.of(X, neighbors, metric)
    numbers = []
    for reach in _REACHES:
        part = _parts(graphs.within(reach))
        number = int(part.max()) + 1
        numbers.append(number if number > 1 and _count(part) >= _EQUAL * number else 0)
    numbers += [numbers[-1]] * (_LASTING - 1)  # parts that no neighbour of ten joins last anyway
    runs = [(len(list(run)), number) for number, run in groupby(numbers) if number]
    length, number = max(runs, default=(0, 0))
    return number if length >= _LASTING else 0


def median_reach(X: Tensor, neighbors: Tensor, metric: str) -> float:
    """How many times as far as the second the last neighbour is, for the median sample."""
    if neighbors.shape[1] <= _FEWEST:
        return 1.0
    graphs = _Graphs.of(X, neighbors, metric)
    return float((graphs.distance[:, -1:] / graphs.next_one).median())


class _Graphs(NamedTuple):
    """Graphs of the neighbours that count as near."""

    neighbors: Tensor
    distance: Tensor  # of the neighbours, ascending
    next_one: Tensor  # distance of the second, copies of the sample left out

    @classmethod
    def of(cls, X: Tensor, neighbors: Tensor, metric: str) -> _Graphs:
        distance, order = _distances(X, neighbors, metric).sort(dim=1, stable=True)
        apart = distance.masked_fill(distance <= 0, torch.inf).sort(1).values
        return cls(neighbors.gather(1, order), distance, apart[:, [_FEWEST - 1]])

    def within(self, reach: float) -> Tensor:
        """Neighbours up to ``reach`` times as far as the second; all in parts that are tiny."""
        kept = (self.distance <= reach * self.next_one).sum(1).clamp_min(_FEWEST)
        part = _parts(_repeated(self.neighbors, kept))
        tiny = torch.from_numpy(np.bincount(part)[part] <= _TINY).to(kept.device)
        return _repeated(self.neighbors, kept.masked_fill(tiny, self.neighbors.shape[1]))


def _repeated(neighbors: Tensor, kept: Tensor) -> Tensor:
    """The first ``kept`` neighbours of each row, again and again."""
    columns = torch.arange(neighbors.shape[1], device=neighbors.device)
    return neighbors.gather(1, columns % kept[:, None])


def _parts(neighbors: Tensor) -> NDArray[np.int32]:
    """The part of the graph that each sample is in."""
    found: NDArray[np.int32] = connected_components(links(neighbors), directed=False)[1]
    return found


def _count(part: NDArray[np.int32]) -> float:
    """What the parts count for: the exponential of their entropy."""
    shares = np.bincount(part) / len(part)
    return float(np.exp(-(shares * np.log(shares)).sum()))


def _distances(X: Tensor, neighbors: Tensor, metric: str) -> Tensor:
    """Distances (n, m) of the neighbours; for ridge metrics the inverse of their coefficients."""
    X = X.detach().flatten(1)
    rows = place(X if X.is_floating_point() else X.float(), metric)
    size = max(1, _AT_ONCE // (neighbors.shape[1] * max(1, rows.shape[1])))
    found = []
    for own, others in zip(torch.split(rows, size), torch.split(neighbors, size), strict=True):
        if metric.startswith(RIDGE):
            found.append(1 / torch.einsum("np,nmp->nm", own, rows[others]).abs())
        else:
            found.append((rows[others] - own[:, None]).norm(dim=2))
    return torch.cat(found)
