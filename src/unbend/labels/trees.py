"""The merge tree of a model: built in three ways, of which the judge keeps one.

Which clusters are alike depends on the data. Ward's rule on the features of stage 1 fails where
groups are long or curved, coding length where clusters have few samples beside d, and membership
where stage 2 has separated the pieces of a group. None is best everywhere, so the cuts of each tree
are judged like other labellings, without true labels.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unbend.labels.hierarchy import cut_tree, merge_clusters
from unbend.labels.judge import Judge
from unbend.labels.model import LabelModel
from unbend.labels.subspaces import second_moments

__all__ = ["MOST_IN_TREES", "choose_tree", "membership_tree"]

MOST_IN_TREES = (
    100  # clusters; above, Ward's tree is kept, because second moments take k·d² numbers
)
_CUTS = (0.75, 0.5, 0.25)  # shares of the clusters that are left
_TINY = 0.02  # of the mean size: a smaller cluster is a splinter
_WITH_SPLINTER = 0.5  # what the score of a cut with a splinter is worth


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


def choose_tree(
    model: LabelModel, C: Tensor, Z: Tensor, judge: Judge, eps_sq: float = 0.1
) -> NDArray[np.float64]:
    """The merge tree whose cuts the judge prefers: the model's own, by length or by membership.

    Parameters
    ----------
    model : LabelModel
        Its tree is Ward's on the features of stage 1.
    C, Z : Tensor of shape (n, d)
        Codes and features of the samples.
    eps_sq : float
        ε² of the coding length.
    """
    k = model.n_clusters
    if not 2 < k <= MOST_IN_TREES:
        return model.merge_tree
    rows, labels = judge.rows, torch.from_numpy(model.labels)
    moments, counts = second_moments(Z[rows.to(Z.device)].cpu().float(), labels[rows], k)
    p = model.predict_proba(C[rows.to(C.device)])
    trees = (
        model.merge_tree,
        merge_clusters(moments, counts, eps_sq),
        membership_tree(p, model.labels[rows.numpy()], k),
    )
    return max(trees, key=lambda tree: _score(tree, labels, k, judge))


def _score(tree: NDArray[np.float64], labels: Tensor, k: int, judge: Judge) -> float:
    """The judge's score of the cuts, on average."""
    scores = []
    for left in sorted({max(2, round(share * k)) for share in _CUTS}):
        cut = torch.from_numpy(cut_tree(tree, left))[labels]
        least = max(2.0, _TINY * len(labels) / left)
        splinter = int(torch.bincount(cut, minlength=left).min()) < least
        scores.append(judge.score(cut, left) * (_WITH_SPLINTER if splinter else 1.0))
    return float(np.mean(scores))
