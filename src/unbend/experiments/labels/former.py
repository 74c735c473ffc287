"""What was done before, and what else could be done: kept here to be measured beside the present.

None of it is used by :class:`unbend.MLC`.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.metrics import adjusted_rand_score
from torch import Tensor

from unbend.labels.assign import assign
from unbend.labels.spectral import Membership
from unbend.labels.subspaces import coding_length, coding_rates

__all__ = ["former_number", "membership_tree", "merge_by_priced_length"]

_ETA = 0.175  # the paper's, for every k
_PILOT, _MOST = 1200, 60
_OPEN = 0.7  # of the greatest strength


def former_number(C: Tensor, Z: Tensor, eps_sq: float = 0.1) -> int:
    """The number of clusters by the former rule, from codes and features at one η.

    The strength of k is its gap in the spectrum of Γ times the agreement of two halves. Among the
    numbers with 0.7 of the greatest strength, the one of the shortest code was chosen.
    """
    order = torch.randperm(len(C), generator=torch.Generator().manual_seed(3))[:_PILOT]
    total, C, Z = len(C), C[order].float(), Z[order].float()
    upper = max(3, min(_MOST, C.shape[1], total // 10))
    membership = Membership.of_few(C, _ETA, False, 1e-3)
    pairs = membership.spectrum(upper + 1)
    values = pairs.values.cpu().double().numpy()
    trace = float(membership.scaling.v.square().sum())
    floor = (trace - values.sum()) / max(1, len(C) - len(values))
    gaps = (values[1:-1] - values[2:]) / np.maximum(values[1:-1] - floor, 1e-7)
    halves = torch.arange(len(C)).chunk(2)
    parts = [Membership.of_few(C[half], _ETA, False, 1e-3).spectrum(upper) for half in halves]
    strength, length = [], []
    for k, gap in zip(range(2, upper + 1), gaps.clip(0, 1), strict=True):
        labels = assign(pairs.vectors, k)
        agreed = [
            adjusted_rand_score(labels[half].numpy(), assign(part.vectors, k).numpy())
            for half, part in zip(halves, parts, strict=True)
        ]
        strength.append(gap * max(float(np.mean(agreed)), 0.0))
        length.append(coding_length(Z, labels, k, eps_sq, total=total))
    is_open = np.array(strength) >= _OPEN * max(strength)
    return int(np.where(is_open, length, np.inf).argmin()) + 2


def merge_by_priced_length(
    moments: Tensor, counts: Tensor, eps_sq: float, k: int
) -> NDArray[np.int64]:
    """Groups of clusters by coding length, with a price for a subspace that small clusters can pay.

    The coding length charges d vectors for a subspace, also for a cluster of three samples. Here
    a cluster pays for min(m, d) of them, no more than it has.
    """
    moments, counts = moments.clone(), counts.clone()
    total, d = float(counts.sum()), moments.shape[-1]

    def length(moments: Tensor, counts: Tensor) -> Tensor:
        rates = coding_rates(moments, counts, eps_sq) / 2
        price = counts + counts.clamp(max=d)
        return price * rates - counts * (counts.clamp_min(1) / total).log()

    groups, alive = np.arange(len(counts)), list(range(len(counts)))
    own = length(moments, counts)
    cost = torch.full((len(counts), len(counts)), torch.inf, dtype=own.dtype)

    def price(a: int) -> None:
        others = [b for b in alive if b != a]
        union = length(moments[others] + moments[a], counts[others] + counts[a])
        cost[a, others] = cost[others, a] = union - own[others] - own[a]

    for a in alive:
        price(a)
    while len(alive) > k:
        a, b = divmod(int(cost.argmin()), len(counts))
        moments[a] += moments[b]
        counts[a] += counts[b]
        own[a] = length(moments[a], counts[a])
        groups[groups == b] = a
        alive.remove(b)
        cost[b], cost[:, b] = torch.inf, torch.inf
        if len(alive) > 1:
            price(a)
    return np.unique(groups, return_inverse=True)[1]


def membership_tree(
    p: NDArray[np.float64], labels: NDArray[np.int64], k: int
) -> NDArray[np.float64]:
    r"""Merge k clusters by average linkage of the membership.

    Each step merges the pair with the largest mean membership :math:`\barΓ_{ab}` between a sample
    of one and a sample of the other. A tiny cluster that belongs to a larger one is absorbed early,
    because the mean does not grow with size.

    Parameters
    ----------
    p : ndarray of shape (n, k)
        Membership of the samples in each cluster.
    labels : ndarray of shape (n,)
        Their clusters.

    Returns
    -------
    ndarray of shape (k - 1, 4)
        A SciPy linkage. The height is :math:`1 / (1 + n \barΓ_{ab})`: small where two clusters
        share their membership, 1 where they share none.

    Examples
    --------
    >>> p = np.array([[0.6, 0.4, 0.0], [0.4, 0.6, 0.0], [0.0, 0.0, 1.0]])
    >>> membership_tree(p, np.arange(3), 3).round(2).tolist()
    [[0.0, 1.0, 0.45, 2.0], [2.0, 3.0, 1.0, 3.0]]
    """
    shared = np.zeros((k, k))
    np.add.at(shared, labels, p)
    shared = (shared + shared.T) / 2
    sizes = np.bincount(labels, minlength=k).astype(np.float64).clip(1)
    n, node, leaves = len(labels), np.arange(k), np.ones(k)
    alive, tree, height = np.ones(k, dtype=bool), np.empty((max(0, k - 1), 4)), 0.0
    for step in range(k - 1):
        mean = np.where(np.outer(alive, alive), shared / np.outer(sizes, sizes), -1.0)
        np.fill_diagonal(mean, -1.0)
        a, b = divmod(int(mean.argmax()), k)
        height = max(height, 1 / (1 + n * float(mean[a, b])))  # rounding must not lower it
        shared[a] += shared[b]
        shared[:, a] += shared[:, b]
        sizes[a], leaves[a], alive[b] = sizes[a] + sizes[b], leaves[a] + leaves[b], False
        tree[step] = [*sorted((node[a], node[b])), height, leaves[a]]
        node[a] = k + step
    return tree
