"""Trees of clusters: which pair to merge next, by Ward's rule or by coding length."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unbend.labels.kernel import row_blocks
from unbend.labels.subspaces import coding_lengths

__all__ = ["cut_tree", "merge_clusters", "ward_tree"]


def ward_tree(rows: Tensor, labels: Tensor, k: int) -> NDArray[np.float64]:
    r"""Merge k clusters of rows by Ward's rule, the nearest and the smallest first.

    Each step merges the pair that increases the squared distances to the cluster means least,
    by :math:`\frac{m_a m_b}{m_a + m_b} ‖μ_a - μ_b‖²`. A cluster of one sample costs at most its
    own squared distance, so tiny clusters are absorbed before large ones are merged.

    Parameters
    ----------
    rows : Tensor of shape (n, d)
        Features in which like clusters are near each other: those of stage 1. Stage 2 makes all
        clusters orthogonal, whether they are alike or not.
    labels : Tensor of shape (n,)
        Clusters 0 … k − 1. An empty one is merged first.

    Returns
    -------
    ndarray of shape (k - 1, 4)
        A SciPy linkage: the two clusters merged, the height, the number of leaf clusters. The
        height is the increase per sample, (for unit rows) a share of their variance.

    Examples
    --------
    >>> rows = torch.tensor([[0.0], [0.1], [1.0], [1.2], [9.0]])
    >>> tree = ward_tree(rows, torch.tensor([0, 0, 1, 1, 2]), 3)
    >>> tree[:, :2].tolist(), tree[0, 2].round(1)
    ([[0.0, 1.0], [2.0, 3.0]], np.float64(0.2))
    """
    labels = labels.cpu()
    counts = torch.bincount(labels, minlength=k).double().numpy()
    sums = torch.zeros(k, rows.shape[1], dtype=rows.dtype).index_add_(0, labels, rows.cpu())
    means = sums.double().numpy() / np.maximum(counts, 1)[:, None]
    total, node = counts.sum(), np.arange(k)
    leaves, tree = np.ones(k), np.empty((max(0, k - 1), 4))
    cost = _ward_costs(means, counts)
    for step in range(k - 1):
        a, b = divmod(int(cost.argmin()), k)
        height = float(cost[a, b]) / total
        size = counts[a] + counts[b]
        means[a] = (counts[a] * means[a] + counts[b] * means[b]) / max(size, 1)
        counts[a], leaves[a] = size, leaves[a] + leaves[b]
        tree[step] = [*sorted((node[a], node[b])), height, leaves[a]]
        node[a] = k + step
        cost[b], cost[:, b] = np.inf, np.inf
        new = size * counts / np.maximum(size + counts, 1) * np.square(means - means[a]).sum(1)
        new[~np.isfinite(cost[a])] = np.inf
        cost[a], cost[:, a] = new, new
    return tree


def _ward_costs(means: NDArray[np.float64], counts: NDArray[np.float64]) -> NDArray[np.float64]:
    """The cost of merging each pair, infinite on the diagonal."""
    lengths = np.square(means).sum(1)
    distance = np.maximum(lengths[:, None] + lengths - 2 * means @ means.T, 0)
    both = counts[:, None] + counts
    cost: NDArray[np.float64] = np.outer(counts, counts) / np.maximum(both, 1) * distance
    np.fill_diagonal(cost, np.inf)
    return cost


# A cluster is compared with this many others, those with the most similar second moments, and
# with the partners of the clusters merged into it. Up to 17 clusters, all pairs are compared.
_PARTNERS = 16


def merge_clusters(moments: Tensor, counts: Tensor, eps_sq: float) -> NDArray[np.float64]:
    """Merge clusters greedily by the increase of the coding length.

    It joins surplus blocks of one subspace (``join="codes"``). It is not the tree of the model:
    with few samples a cluster, the price of a subspace merges large clusters first.

    Parameters
    ----------
    moments, counts : Tensor of shape (k, d, d) and (k,)
        Z_qᵀ Z_q and m_q of the clusters.
    eps_sq : float
        ε² of the coding length.

    Returns
    -------
    ndarray of shape (k - 1, 4)
        A SciPy linkage: the two clusters merged, the height, the number of leaf clusters. The
        height is the largest increase of the coding length (nats) so far, at least zero,
        because a dendrogram needs monotone heights and greedy merging does not give them.
        Height zero means that the merge makes the code shorter.

    Notes
    -----
    With more than 17 clusters, each cluster is compared only with the 16 whose second moments
    are most similar, so that time grows with k and not with k².
    """
    forest = _Forest(moments, counts, eps_sq)
    k = len(forest.node)
    tree, height = np.empty((k - 1, 4)), 0.0
    for step in range(k - 1):
        a, b, increase = forest.cheapest()
        height = max(height, increase)
        pair = sorted((forest.node[a], forest.node[b]))
        forest.merge(a, b, k + step)
        tree[step] = [*pair, height, forest.leaves[a]]
    return tree


class _Forest:
    """The clusters not merged yet, and the cost of merging each pair."""

    def __init__(self, moments: Tensor, counts: Tensor, eps_sq: float) -> None:
        k = counts.shape[0]
        self.moments, self.counts, self.eps_sq = moments.clone(), counts.clone(), eps_sq
        self.total = float(counts.sum())
        self.own = coding_lengths(moments, counts, self.total, eps_sq)
        self.shape = torch.nn.functional.normalize(moments.flatten(1), dim=1)
        self.node, self.leaves = list(range(k)), [1] * k
        self.alive = torch.ones(k, dtype=torch.bool)
        self.cost = torch.full((k, k), torch.inf, dtype=moments.dtype)
        partners = [self._partners(a) for a in range(k)]
        self._price(torch.cat([torch.stack([p.new_full(p.shape, a), p], 1) for a, p in partners]))

    def cheapest(self) -> tuple[int, int, float]:
        """The pair with the smallest increase of the coding length."""
        a, b = divmod(int(self.cost.argmin()), len(self.node))
        return a, b, float(self.cost[a, b])

    def merge(self, a: int, b: int, node: int) -> None:
        """Merge cluster b into a, which becomes the given node of the tree."""
        known = self._priced(a) | self._priced(b)
        self.moments[a] += self.moments[b]
        self.counts[a] += self.counts[b]
        self.leaves[a] += self.leaves[b]
        self.node[a] = node
        self.alive[b] = False
        self.cost[b, :] = self.cost[:, b] = torch.inf
        self.shape[a] = torch.nn.functional.normalize(self.moments[a].flatten(), dim=0)
        self.own[a] = coding_lengths(self.moments[a], self.counts[a], self.total, self.eps_sq)
        known[self._partners(a)[1]] = True
        known[[a, b]] = False
        partners = known.nonzero()[:, 0]
        self._price(torch.stack([partners.new_full(partners.shape, a), partners], 1))

    def _priced(self, a: int) -> Tensor:
        return torch.minimum(self.cost[a], self.cost[:, a]) < torch.inf

    def _partners(self, a: int) -> tuple[int, Tensor]:
        """The clusters whose second moments are most like those of a."""
        affinity = self.shape @ self.shape[a]
        affinity[~self.alive] = affinity[a] = -torch.inf
        size = min(_PARTNERS, int(self.alive.sum()) - 1)
        return a, affinity.topk(size).indices

    def _price(self, pairs: Tensor) -> None:
        """Update the cost of merging each pair, stored above the diagonal."""
        pairs = torch.unique(pairs.sort(dim=1).values, dim=0)
        for rows in row_blocks(pairs.shape[0], self.moments[0].numel()):
            a, b = pairs[rows].T
            union = coding_lengths(
                self.moments[a] + self.moments[b],
                self.counts[a] + self.counts[b],
                self.total,
                self.eps_sq,
            )
            self.cost[a, b] = union - self.own[a] - self.own[b]


def cut_tree(tree: NDArray[np.float64], k: int) -> NDArray[np.int64]:
    """The group of each leaf cluster when the tree is cut into k groups.

    Groups are numbered in the order of their first leaf.

    >>> tree = np.array([[0.0, 2.0, 1.0, 2.0], [1.0, 3.0, 2.0, 3.0]])
    >>> cut_tree(tree, 2).tolist()
    [0, 1, 0]
    """
    n_leaves = tree.shape[0] + 1
    group = {leaf: [leaf] for leaf in range(n_leaves)}
    for step in range(n_leaves - k):
        a, b = int(tree[step, 0]), int(tree[step, 1])
        group[n_leaves + step] = group.pop(a) + group.pop(b)
    out = np.empty(n_leaves, dtype=np.int64)
    for number, leaves in enumerate(sorted(group.values(), key=min)):
        out[leaves] = number
    return out
