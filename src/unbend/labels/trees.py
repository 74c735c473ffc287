"""The merge tree of a model: each step merges the pair that costs the judge's score least.

Which clusters are alike depends on the data. Ward's rule on the features of stage 1 fails where
groups are long or curved, coding length where clusters have few samples beside d, and membership
where stage 2 has separated the pieces of a group. The judge sees samples, features and the graph of
neighbours at once, and it knows no true labels.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unbend.functional import coding_rate
from unbend.labels.judge import Judge
from unbend.labels.model import LabelModel
from unbend.labels.subspaces import coding_rates, second_moments
from unbend.samples.directions import principal_directions

__all__ = ["MOST_IN_TREES", "judged_tree", "merge_by_judge"]

MOST_IN_TREES = 100  # clusters; above, Ward's tree is kept: all pairs of second moments are joined
_WIDEST = 128  # directions of features that are looked at; work grows with their third power
# Of the mean size: a smaller cluster is a splinter. Rates favour it, because few samples span few
# directions, and would join splinters with each other.
_TINY = 0.1
_LEAST = 1e-6  # a share, so that its logarithm exists

Array = NDArray[np.float64]


def judged_tree(model: LabelModel, judge: Judge) -> Array:
    """The tree of :func:`merge_by_judge` for the clusters of a model.

    Its own tree is returned for more than 100 clusters, where trying all pairs takes too long.
    """
    if not 2 < model.n_clusters <= MOST_IN_TREES:
        return model.merge_tree
    return merge_by_judge(torch.from_numpy(model.labels), model.n_clusters, judge)


def merge_by_judge(labels: Tensor, k: int, judge: Judge) -> Array:
    r"""Merge clusters greedily by the score of :class:`~unbend.labels.judge.Judge`.

    Each step merges the pair after whose merger the score is highest. As long as there are
    splinters, clusters of one sample or of less than a tenth of the mean size, the smallest is
    merged, into the cluster that is none after which the score is highest.

    Parameters
    ----------
    labels : Tensor of shape (n,)
        Cluster of each sample, from 0 to k - 1; none is empty.
    k : int
        At least 2.
    judge : Judge
        Of the same samples.

    Returns
    -------
    ndarray of shape (k - 1, 4)
        A SciPy linkage. The height is the largest share of the score that a step has cost so far,
        at least zero, because a dendrogram needs monotone heights.
    """
    evidence = judge.evidence()
    labels = labels.cpu()
    some = labels[judge.rows]
    shares: list[_Rates | _Both | _Links] = [_Rates(_leading(evidence.Z), some, k, evidence.eps_sq)]
    weights = [evidence.weights["features"]]
    if evidence.X is not None:
        shares.append(_Both(_leading(evidence.X), some, k, evidence.eps_sq))
        weights.append(evidence.weights["samples"])
    if evidence.links is not None:
        shares.append(_Links(evidence.links, labels.numpy(), k))
        weights.append(evidence.weights["graph"])
    sizes = np.bincount(labels.numpy(), minlength=k).astype(np.float64)
    return _merge(shares, np.array(weights) / sum(weights), sizes)


def _leading(X: Tensor) -> Tensor:
    """Wide rows along their leading principal directions, scaled so that rates stay the same."""
    width = X.shape[1]
    if width <= _WIDEST:
        return X
    X = X.double()
    X = X @ principal_directions(X)[1][:, -_WIDEST:]
    scale: float = (width / X.shape[1]) ** 0.5  # a rate has a factor of the width
    return X * scale


def _merge(shares: list[_Rates | _Both | _Links], weights: Array, sizes: Array) -> Array:
    """Merge until one cluster is left, always the pair with the highest score afterwards."""
    k = len(sizes)
    node, leaves, height = np.arange(k), np.ones(k), 0.0
    alive, tree = np.ones(k, dtype=bool), np.empty((k - 1, 4))
    for step in range(k - 1):
        logs = [_log(share.after(alive)) for share in shares]
        score = np.tensordot(weights, np.stack(logs), 1)
        score[~_allowed(sizes, alive)] = -np.inf
        a, b = divmod(int(score.argmax()), k)
        before = sum(
            w * float(_log(share.now(alive))) for w, share in zip(weights, shares, strict=True)
        )
        height = max(height, 1 - float(np.exp(score[a, b] - before)))
        alive[b] = False
        for share in shares:
            share.merge(a, b, alive)
        sizes[a], leaves[a] = sizes[a] + sizes[b], leaves[a] + leaves[b]
        tree[step] = [*sorted((node[a], node[b])), height, leaves[a]]
        node[a] = k + step
    return tree


def _allowed(sizes: Array, alive: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """The pairs that may merge: all, or the smallest splinter with clusters that are none."""
    tiny = alive & (sizes < max(2.0, _TINY * sizes[alive].mean()))
    if tiny.any() and not tiny[alive].all():
        pairs = np.zeros((len(sizes), len(sizes)), dtype=bool)
        pairs[np.where(tiny, sizes, np.inf).argmin()] = alive & ~tiny
        return pairs | pairs.T
    pairs = np.outer(alive, alive)
    np.fill_diagonal(pairs, False)
    return pairs


def _log(share: Array | float) -> Array:
    found: Array = np.log(np.maximum(share, _LEAST))
    return found


class _Rates:
    """The explained share of the coding rate, and what merging each pair takes from it."""

    def __init__(
        self, X: Tensor, labels: Tensor, k: int, eps_sq: float, centred: bool = False
    ) -> None:
        X = X.double()
        self.eps_sq, self.centred, self.n = eps_sq, centred, len(X)
        self.whole = max(float(coding_rate(X, eps_sq)), _LEAST)
        self.moments, self.counts = second_moments(X, labels, k)
        self.sums = torch.zeros(k, X.shape[1], dtype=X.dtype).index_add_(0, labels, X)
        self.own = self._parts(self.moments, self.counts, self.sums)
        self.loss = np.zeros((k, k))
        for a in range(k):
            self._price(a, np.arange(a + 1, k))

    def now(self, alive: NDArray[np.bool_]) -> float:
        """The share of the present clusters."""
        return 1 - float(self.own[torch.from_numpy(alive)].sum()) / self.whole

    def after(self, alive: NDArray[np.bool_]) -> Array:
        """The share after merging each pair."""
        found: Array = self.now(alive) - self.loss
        return found

    def merge(self, a: int, b: int, alive: NDArray[np.bool_]) -> None:
        """Merge b into a."""
        for sums in (self.moments, self.counts, self.sums):
            sums[a] += sums[b]
        one = slice(a, a + 1)
        self.own[one] = self._parts(self.moments[one], self.counts[one], self.sums[one])
        others = np.flatnonzero(alive)
        self._price(a, others[others != a])

    def _price(self, a: int, others: NDArray[np.int64]) -> None:
        if not len(others):
            return
        rows = torch.from_numpy(others)
        union = self._parts(*(s[rows] + s[a] for s in (self.moments, self.counts, self.sums)))
        loss = ((union - self.own[rows] - self.own[a]) / self.whole).numpy()
        self.loss[a, others], self.loss[others, a] = loss, loss

    def _parts(self, moments: Tensor, counts: Tensor, sums: Tensor) -> Tensor:
        """n_q / n · R(X_q), with every cluster moved to its own mean if ``centred``."""
        if self.centred:
            outer = sums[..., :, None] * sums[..., None, :]
            moments = moments - outer / counts.clamp_min(1)[..., None, None]
        return counts / self.n * coding_rates(moments, counts, self.eps_sq)


class _Both:
    """The mean of the shares for linear and for affine clusters."""

    def __init__(self, X: Tensor, labels: Tensor, k: int, eps_sq: float) -> None:
        self.parts = [_Rates(X, labels, k, eps_sq, centred) for centred in (False, True)]

    def now(self, alive: NDArray[np.bool_]) -> float:
        return sum(part.now(alive) for part in self.parts) / 2

    def after(self, alive: NDArray[np.bool_]) -> Array:
        return (self.parts[0].after(alive) + self.parts[1].after(alive)) / 2

    def merge(self, a: int, b: int, alive: NDArray[np.bool_]) -> None:
        for part in self.parts:
            part.merge(a, b, alive)


class _Links:
    """The share of a cluster's links that stay inside it, averaged over clusters."""

    def __init__(
        self,
        links: tuple[NDArray[np.integer], NDArray[np.integer]],
        labels: NDArray[np.int64],
        k: int,
    ) -> None:
        self.between = np.zeros((k, k))
        np.add.at(self.between, tuple(labels[ends] for ends in links), 1.0)
        self.whole = self.between.sum(1)

    def now(self, alive: NDArray[np.bool_]) -> float:
        return float(self._inside()[alive].mean())

    def after(self, alive: NDArray[np.bool_]) -> Array:
        inside, own = self._inside(), self.between.diagonal()
        both = own[:, None] + own + self.between + self.between.T
        both /= np.maximum(self.whole[:, None] + self.whole, 1)
        total = inside[alive].sum() - inside[:, None] - inside + both
        found: Array = total / (alive.sum() - 1)
        return found

    def merge(self, a: int, b: int, alive: NDArray[np.bool_]) -> None:
        self.between[a] += self.between[b]
        self.between[:, a] += self.between[:, b]
        self.between[b], self.between[:, b] = 0.0, 0.0
        self.whole[a] += self.whole[b]

    def _inside(self) -> Array:
        found: Array = self.between.diagonal() / np.maximum(self.whole, 1)
        return found
