"""Sparse subspace clustering by orthogonal matching pursuit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor

from unbend.baselines.registry import peer
from unbend.baselines.selfexpression import SelfExpressive, blocks

__all__ = ["SSCOMP", "omp_codes"]

_BLOCK = 256


@peer("ssc-omp", "self-expression by orthogonal matching pursuit", year=2016)
@dataclass(eq=False, repr=False, kw_only=True)
class SSCOMP(SelfExpressive):
    """Sparse subspace clustering by orthogonal matching pursuit (You, Robinson, Vidal [1]_).

    Every sample of unit length is written with at most ``n_nonzero`` others: Algorithm 1 of the
    paper takes the sample most correlated with the residual, then fits all samples taken so far
    by least squares, until the residual is no longer than ``tol``. |C| + |C|ᵀ goes through
    spectral clustering (Algorithm 2).

    All samples are processed together, with one matrix product per step. Least squares uses an
    orthonormal basis that grows by one vector per step. The pursuit also stops if the best sample
    lies in the span of those already taken, where the paper's algorithm would divide by zero.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters.
    n_nonzero : int, default=10
        k_max, the most samples in one code.
    tol : float, default=1e-6
        ε, the length of the residual that ends the pursuit.
    random_state : int, RandomState or None, default=None
        Seed of the eigenvectors' start and of k-means.

    Attributes
    ----------
    labels_ : ndarray of shape (n,)
        Cluster of each sample, numbered by falling size.
    affinity_matrix_ : csr_array of shape (n, n)
        (|C| + |C|ᵀ) / 2.
    n_features_in_ : int
        Numbers in one sample.

    Notes
    -----
    A graph with few connections is fragile. If features fill the space, as those of a
    self-supervised network do, samples that choose each other form pairs that are only weakly
    connected to the rest. The leading eigenvectors then describe such pairs, not the clusters,
    and labels are near chance although most connections are right. Fewer samples in a code
    (``n_nonzero=3``) help. :class:`EnSC` has more connections and does not have this problem.

    References
    ----------
    .. [1] C. You, D. P. Robinson, R. Vidal, "Scalable sparse subspace clustering by orthogonal
       matching pursuit", CVPR 2016.

    Examples
    --------
    >>> from unbend.baselines import SSCOMP
    >>> X = [[1, 0, 0], [2, 1, 0], [1, 3, 0], [0, 0, 1], [0, 0, -2]]
    >>> SSCOMP(2, random_state=0).fit(X).labels_.tolist()
    [0, 0, 0, 1, 1]
    """

    n_nonzero: int = 10
    tol: float = 1e-6

    def _codes(self, X: NDArray[Any]) -> sp.csr_array:
        return omp_codes(X, self.n_nonzero, self.tol)


def omp_codes(
    X: NDArray[Any], n_nonzero: int = 10, tol: float = 1e-6, rows: Any = None
) -> sp.csr_array:
    """Pursuit codes of unit rows of X; row j of the result is the code of sample j.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Samples of unit length.
    rows : array of int, optional
        Only these samples get a code, all by default; all serve as candidates.
    """
    unit = torch.from_numpy(np.ascontiguousarray(X, dtype=np.float64))
    chosen = torch.arange(len(unit)) if rows is None else torch.as_tensor(np.asarray(rows))
    steps = min(n_nonzero, len(unit) - 1)
    parts = [_pursue(unit, part, steps, tol) for part in blocks(chosen, _BLOCK)]
    support, code = (torch.cat(x).numpy() for x in zip(*parts, strict=True))
    pointer = np.arange(len(chosen) + 1) * steps
    shape = (len(chosen), len(unit))
    C = sp.csr_array((code.ravel(), support.ravel(), pointer), shape=shape)
    C.eliminate_zeros()
    C.sort_indices()
    return C


def _pursue(X: Tensor, rows: Tensor, steps: int, tol: float) -> tuple[Tensor, Tensor]:
    """Support and code of some samples, both (r, steps); unused entries are 0.

    Q (r, steps, d) is an orthonormal basis of the samples taken, U their coordinates in it, so
    that the code solves U c = Qᵀx with a triangular U.
    """
    r, each = len(rows), torch.arange(len(rows))
    Q = X.new_zeros(r, steps, X.shape[1])
    U = torch.eye(steps, dtype=X.dtype).repeat(r, 1, 1)
    y = X.new_zeros(r, steps)
    support = torch.zeros(r, steps, dtype=torch.int64)
    residual, active = X[rows].clone(), torch.ones(r, dtype=torch.bool)
    for k in range(steps):
        score = (residual @ X.T).abs_()
        score[each, rows] = -1.0
        if k:
            score.scatter_(1, support[:, :k], -1.0)
        best = score.argmax(1)
        q, coordinates, length = _orthogonal_part(X[best], Q[:, :k])
        active &= (torch.linalg.vector_norm(residual, dim=1) > tol) & (length > 1e-10)
        if not bool(active.any()):
            break
        q = torch.where(active[:, None], q / length.clamp_min(1e-300)[:, None], 0.0)
        Q[:, k], support[:, k] = q, torch.where(active, best, 0)
        U[:, :k, k] = torch.where(active[:, None], coordinates, 0.0)
        U[:, k, k] = torch.where(active, length, 1.0)
        y[:, k] = (q * residual).sum(1)
        residual -= y[:, k, None] * q
    code = torch.linalg.solve_triangular(U, y[:, :, None], upper=True)[:, :, 0]
    return support, code


def _orthogonal_part(x: Tensor, Q: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Split x into coordinates in the basis Q and the rest; twice, for full precision."""
    coordinates = x.new_zeros(len(x), Q.shape[1])
    for _ in range(2):
        part = torch.bmm(Q, x[:, :, None])[:, :, 0]
        x = x - torch.bmm(part[:, None], Q)[:, 0]
        coordinates = coordinates + part
    return x, coordinates, torch.linalg.vector_norm(x, dim=1)
