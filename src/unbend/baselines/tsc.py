"""Thresholding-based subspace clustering."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from unbend.baselines.registry import peer
from unbend.baselines.selfexpression import SelfExpressive

__all__ = ["TSC", "tsc_codes"]

_BLOCK = 1024


@peer("tsc", "thresholded inner products", year=2015)
@dataclass(eq=False, repr=False, kw_only=True)
class TSC(SelfExpressive):
    """Thresholding-based subspace clustering (Heckel and Bölcskei [1]_).

    Each sample of unit length keeps the q samples with the largest |⟨x_i, x_j⟩|, with weight
    exp(−2 arccos |⟨x_i, x_j⟩|); Z + Zᵀ goes through spectral clustering. Unlike the paper, the
    number of clusters is given, not estimated from the eigengap. The affinity is (Z + Zᵀ)/2,
    a scale that does not change spectral clustering.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters.
    n_neighbors : int, optional
        q. By default max(3, ⌈n / (20 k)⌉), the value of the paper's experiments for n / k
        samples in each cluster.
    random_state : int, RandomState or None, default=None
        Seed of the eigenvectors' start and of k-means.

    Attributes
    ----------
    labels_ : ndarray of shape (n,)
        Cluster of each sample, numbered by falling size.
    affinity_matrix_ : csr_array of shape (n, n)
        (Z + Zᵀ) / 2.
    n_features_in_ : int
        Numbers in one sample.

    References
    ----------
    .. [1] R. Heckel, H. Bölcskei, "Robust subspace clustering via thresholding", IEEE
       Transactions on Information Theory 61(11), 2015.

    Examples
    --------
    >>> from unbend.baselines import TSC
    >>> X = [[3, 1, 0], [2, 1, 0], [2, 2, 0], [0, 0, 1], [0, 0, -2]]
    >>> TSC(2, n_neighbors=1, random_state=0).fit(X).labels_.tolist()
    [0, 0, 0, 1, 1]
    """

    n_neighbors: int | None = None

    def _codes(self, X: NDArray[Any]) -> sp.csr_array:
        q = self.n_neighbors or max(3, -(-len(X) // (20 * self.n_clusters)))
        return tsc_codes(X, min(q, len(X) - 1))


def tsc_codes(X: NDArray[Any], q: int) -> sp.csr_array:
    """Weights of the q nearest directions of each unit row of X."""
    n = len(X)
    columns, cosines = np.empty((n, q), dtype=np.int64), np.empty((n, q), dtype=X.dtype)
    for start in range(0, n, _BLOCK):
        rows = slice(start, min(start + _BLOCK, n))
        P = np.abs(X[rows] @ X.T)
        P[np.arange(len(P)), np.arange(n)[rows]] = -1.0  # exclude the sample itself
        columns[rows] = np.argpartition(-P, q - 1, axis=1)[:, :q]
        cosines[rows] = np.take_along_axis(P, columns[rows], axis=1)
    weights = np.exp(-2 * np.arccos(np.clip(cosines, 0.0, 1.0)))
    return sp.csr_array((weights.ravel(), columns.ravel(), np.arange(n + 1) * q), shape=(n, n))
