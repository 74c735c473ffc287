"""From a spectral embedding to labels, without random starts: pivoted QR, then Lloyd."""

from __future__ import annotations

import numpy as np
import scipy.linalg
import torch
from numpy.typing import NDArray
from torch import Tensor

from unbend.labels.hierarchy import cut_tree, ward_tree

__all__ = ["assign", "canonical", "join", "normalise_rows", "pivot_rows"]


def normalise_rows(U: Tensor, floor: float = 1e-3) -> Tensor:
    """Rows of U on the unit sphere; rows that are almost zero stay short.

    In the ideal embedding a row of cluster q has norm m_q^{-1/2}: normalisation makes clusters
    of all sizes equal. The direction of a row far below the typical norm is unreliable, so the
    row is divided by ``floor`` times the median norm instead. It then barely moves any centre.
    """
    norms = torch.linalg.vector_norm(U, dim=1, keepdim=True)
    shortest = floor * float(norms.median()) + torch.finfo(U.dtype).tiny
    rows: Tensor = U / norms.clamp_min(shortest)
    return rows


def pivot_rows(rows: Tensor, k: int) -> Tensor:
    """Indices of k rows chosen by column-pivoted QR of ``rowsᵀ``.

    Each pivot is the row with the largest component outside the span of the previous pivots.
    Rows on the sphere all tie for the first pivot. A weight that decreases by 0.1 % from the
    first sample to the last breaks the tie, so that rounding errors do not.
    """
    weights = torch.linspace(1.0, 0.999, rows.shape[0], dtype=rows.dtype)
    columns = (rows.cpu() * weights[:, None]).numpy().T
    _, pivots = scipy.linalg.qr(columns, mode="r", pivoting=True, overwrite_a=True)
    return torch.from_numpy(pivots[:k].astype(np.int64)).to(rows.device)


def lloyd(rows: Tensor, centres: Tensor, max_iter: int = 100) -> tuple[Tensor, Tensor]:
    """Lloyd's iteration from given centres: labels and squared distances to the centres."""
    k, lengths = centres.shape[0], rows.square().sum(1)
    labels = torch.full((rows.shape[0],), -1, device=rows.device)
    for _ in range(max_iter):
        gain = torch.addmm(-0.5 * centres.square().sum(1), rows, centres.T)
        best, new = gain.max(1)
        distances = (lengths - 2 * best).clamp_min(0)
        new = fill_empty(new, distances, k)
        if torch.equal(new, labels):
            break
        labels = new
        sums = torch.zeros_like(centres).index_add_(0, labels, rows)
        centres = sums / torch.bincount(labels, minlength=k)[:, None]
    return labels, distances


def fill_empty(labels: Tensor, distances: Tensor, k: int) -> Tensor:
    """Give each empty cluster the sample farthest from its centre, from clusters of two or more."""
    counts = torch.bincount(labels, minlength=k)
    if bool((counts > 0).all()):
        return labels
    labels, order = labels.clone(), distances.argsort(descending=True, stable=True).tolist()
    for empty in (counts == 0).nonzero()[:, 0].tolist():
        donor = next(i for i in order if int(counts[labels[i]]) > 1)
        counts[labels[donor]] -= 1
        counts[empty] += 1
        labels[donor] = empty
    return labels


def join(rows: Tensor, labels: Tensor, k: int) -> Tensor:
    """Join non-empty blocks of rows into k clusters; return the cluster of each block.

    By Ward's rule: each step joins the two blocks that increase the k-means cost least.
    """
    tree = ward_tree(rows, labels, int(labels.max()) + 1)
    return torch.from_numpy(cut_tree(tree, k)).to(labels.device)


def assign(U: Tensor, k: int, n_blocks: int | None = None) -> Tensor:
    """Cluster the rows of a spectral embedding.

    Γ is doubly stochastic: all degrees are one, the random-walk and the symmetric Laplacian
    are both I − Γ, and the eigenvectors need no degree correction. Rows are then put on the
    sphere (:func:`normalise_rows`), k pivots of a QR decomposition start Lloyd's iteration.

    Parameters
    ----------
    U : Tensor of shape (n, p)
        Leading eigenvectors of Γ; the first k columns are used, or the first ``n_blocks``.
    k : int
        Number of clusters; every cluster gets at least one sample.
    n_blocks : int, optional
        Find this many clusters, then join them into k by Ward's rule. If n_blocks eigenvalues
        are nearly equal, rounding decides which k are largest; using all of them avoids that.

    Examples
    --------
    >>> U = torch.tensor([[1.0, 0.0], [1.0, 0.1], [0.0, 1.0], [0.0, 0.9]])
    >>> assign(U, 2).tolist()
    [0, 0, 1, 1]
    """
    p = n_blocks or k
    rows = normalise_rows(U[:, :p])
    labels = lloyd(rows, rows[pivot_rows(rows, p)])[0]
    return join(rows, labels, k)[labels] if p > k else labels


def canonical(labels: NDArray[np.int64], k: int) -> NDArray[np.int64]:
    """The new number of each label: largest cluster first, ties by the first sample.

    >>> canonical(np.array([2, 0, 0, 1]), 3)[[2, 0, 1]].tolist()
    [1, 0, 2]
    """
    counts = np.bincount(labels, minlength=k)
    first = np.full(k, labels.size)
    np.minimum.at(first, labels, np.arange(labels.size))
    rank = np.empty(k, dtype=np.int64)
    rank[np.lexsort((first, -counts))] = np.arange(k)
    return rank
