"""A tree of clusters: merge greedily whatever lengthens the code least."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unbend.labels.kernel import row_blocks
from unbend.labels.subspaces import coding_lengths

__all__ = ["cut_tree", "merge_clusters"]


def _pair_lengths(moments: Tensor, counts: Tensor, pairs: Tensor, eps_sq: float) -> Tensor:
    """Coding length of the union of each pair of clusters."""
    total, d = float(counts.sum()), moments.shape[-1]
    lengths = moments.new_empty(pairs.shape[0])
    for rows in row_blocks(pairs.shape[0], d * d):
        a, b = pairs[rows].T
        lengths[rows] = coding_lengths(
            moments[a] + moments[b], counts[a] + counts[b], total, eps_sq
        )
    return lengths


def merge_clusters(moments: Tensor, counts: Tensor, eps_sq: float) -> NDArray[np.float64]:
    """Merge clusters greedily by the increase of the coding length.

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
        height is the largest increase of the coding length (nats) so far, at least zero: a
        greedy order need not be monotone, a dendrogram must be. Height zero means that the
        merge makes the code shorter.
    """
    k = int(counts.shape[0])
    moments, counts = moments.clone(), counts.clone()
    own = coding_lengths(moments, counts, float(counts.sum()), eps_sq)
    cost = torch.full((k, k), torch.inf, dtype=moments.dtype)
    pairs = torch.triu_indices(k, k, 1).T
    union = _pair_lengths(moments, counts, pairs, eps_sq)
    cost[pairs[:, 0], pairs[:, 1]] = union - own[pairs[:, 0]] - own[pairs[:, 1]]
    node, leaves = list(range(k)), [1] * k
    tree, height = np.empty((k - 1, 4)), 0.0
    for step in range(k - 1):
        a, b = divmod(int(cost.argmin()), k)
        height = max(height, float(cost[a, b]))
        leaves[a] += leaves[b]
        tree[step] = [*sorted((node[a], node[b])), height, leaves[a]]
        node[a] = k + step
        moments[a] += moments[b]
        counts[a] += counts[b]
        counts[b] = 0.0  # the total stays the same
        cost[b, :] = cost[:, b] = torch.inf
        _update_costs(cost, own, moments, counts, a, eps_sq)
    return tree


def _update_costs(
    cost: Tensor, own: Tensor, moments: Tensor, counts: Tensor, a: int, eps_sq: float
) -> None:
    """Renew row and column a of the merge costs after cluster a has grown."""
    alive = (torch.minimum(cost[a], cost[:, a]) < torch.inf).nonzero()[:, 0]
    total = float(counts.sum())
    own[a] = coding_lengths(moments[a], counts[a], total, eps_sq)
    pairs = torch.stack([torch.minimum(alive, torch.tensor(a)), alive.clamp_min(a)], dim=1)
    union = _pair_lengths(moments, counts, pairs, eps_sq)
    cost[pairs[:, 0], pairs[:, 1]] = union - own[alive] - own[a]


def cut_tree(tree: NDArray[np.float64], k: int) -> NDArray[np.int64]:
    """For each leaf cluster its group when the tree is cut into k groups.

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
