"""Base of the self-expressive methods: unit samples, codes, affinity, spectral labels."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from sklearn.utils import check_random_state
from torch import Tensor

from unbend.baselines.vectors import VectorPeer
from unbend.labels.assign import canonical
from unbend.labels.eigen import leading_eigenpairs

__all__ = ["SelfExpressive", "blocks", "is_sparse", "spectral_labels", "symmetrise", "unit_rows"]

Affinity = NDArray[Any] | sp.csr_array

_FULL = 1500  # up to this size a full eigendecomposition costs less than a second


class SelfExpressive(VectorPeer):
    """Base of the methods that compute an affinity and cluster it spectrally.

    Each sample is scaled to unit length first, as in the papers. A subclass implements ``_codes``
    or ``_affinity``.
    """

    affinity_matrix_: Affinity

    def _labels(self, X: NDArray[Any]) -> NDArray[np.int64]:
        self.affinity_matrix_ = self._affinity(unit_rows(X))
        return spectral_labels(self.affinity_matrix_, self.n_clusters, self.random_state)

    def _affinity(self, X: NDArray[Any]) -> Affinity:
        return symmetrise(self._codes(X))

    def _codes(self, X: NDArray[Any]) -> Affinity:
        """Row j is the code of sample j, of unit length."""
        raise NotImplementedError


def unit_rows(X: NDArray[Any]) -> NDArray[Any]:
    """Rows of X on the unit sphere; a row of zeros stays zero."""
    # Dividing by the largest entry first keeps squares from overflowing and from vanishing.
    largest = np.abs(X).max(axis=1, keepdims=True)
    X = X / np.where(largest > 0, largest, 1)
    norms = np.linalg.norm(X, axis=1, keepdims=True)
    unit: NDArray[Any] = X / np.where(norms > 0, norms, 1)
    return unit


def symmetrise(C: Affinity) -> Affinity:
    """(|C| + |C|ᵀ) / 2."""
    size: Any = abs(C)
    mean = (size + size.T) / 2
    return sp.csr_array(mean) if is_sparse(mean) else np.asarray(mean)


def is_sparse(A: Any) -> bool:
    """Whether A is one of SciPy's sparse arrays."""
    return bool(sp.issparse(A))


def blocks(items: Tensor, size: int) -> list[Tensor]:
    """Split items into blocks of the given size."""
    return [items[start : start + size] for start in range(0, len(items), size)]


def spectral_labels(
    W: Affinity, n_clusters: int, random_state: Any = None, *, n_init: int = 10
) -> NDArray[np.int64]:
    """Normalised spectral clustering of a non-negative symmetric affinity.

    Takes the k leading eigenvectors of D^{-1/2} W D^{-1/2}, normalises their rows and runs
    k-means. Rows of isolated samples are zero and go to the nearest centre. Clusters are numbered
    by size, largest first.

    >>> W = np.kron(np.eye(2), np.ones((3, 3)))
    >>> spectral_labels(W, 2, 0).tolist()
    [0, 0, 0, 1, 1, 1]
    """
    random = check_random_state(random_state)
    degree = np.asarray(W.sum(axis=1)).ravel().astype(np.float64)
    root = np.where(degree > 0, 1 / np.sqrt(np.where(degree > 0, degree, 1)), 0)
    U = unit_rows(_leading_eigenvectors(W, root, n_clusters, random))
    model = KMeans(n_clusters, n_init=n_init, random_state=random.randint(2**31 - 1))
    labels = model.fit_predict(U).astype(np.int64)
    numbered: NDArray[np.int64] = canonical(labels, n_clusters)[labels]
    return numbered


def _leading_eigenvectors(
    W: Affinity, root: NDArray[np.float64], k: int, random: np.random.RandomState
) -> NDArray[np.float64]:
    """The k leading eigenvectors of Diag(root) W Diag(root)."""
    n = W.shape[0]
    if n <= max(_FULL, 8 * k):
        dense = W.toarray() if isinstance(W, sp.csr_array) else W
        A = root[:, None] * dense.astype(np.float64) * root
        U: NDArray[np.float64] = scipy.linalg.eigh((A + A.T) / 2, subset_by_index=[n - k, n - 1])[1]
        return U

    def apply(V: Tensor) -> Tensor:
        # (I + A) / 2 has its spectrum in [0, 1], so that the largest are the leading ones.
        v = V.numpy()
        return torch.from_numpy((v + root[:, None] * (W @ (root[:, None] * v))) / 2)

    # A disconnected affinity has repeated eigenvalues; a block method finds all of them.
    start = torch.from_numpy(random.standard_normal((n, k + max(4, k // 4))))
    pairs = leading_eigenpairs(apply, start, k, tol=1e-4, max_iter=300, n_blocks=6)
    return pairs.vectors.numpy()
