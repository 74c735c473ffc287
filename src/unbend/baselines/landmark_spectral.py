"""Spectral clustering with landmarks, for more samples than a full graph can handle."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn import cluster
from sklearn.neighbors import NearestNeighbors
from sklearn.utils import check_random_state

from unbend.baselines.classics import kmeans_labels
from unbend.baselines.registry import peer
from unbend.baselines.selfexpression import unit_rows
from unbend.baselines.vectors import VectorPeer

__all__ = ["LandmarkSpectral"]

_PLACEMENT_STEPS = 10


@peer("landmark-spectral", "spectral clustering through landmarks", year=2011)
@dataclass(eq=False, repr=False, kw_only=True)
class LandmarkSpectral(VectorPeer):
    r"""Chen and Cai, "Large scale spectral clustering with landmark-based representation",
    AAAI 2011 (LSC-K).

    Landmarks are the centres of a short k-means. A row of P holds the Gaussian weights of a
    sample's nearest landmarks, which sum to one. The graph is :math:`P Λ^{-1} P^⊤` with the column
    sums Λ. It is never formed: its leading eigenvectors come from the smaller matrix
    :math:`Λ^{-1/2} P^⊤ P Λ^{-1/2}`. Time and memory are linear in n.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters.
    n_landmarks : int, default=1000
        As published; at most n are used.
    n_neighbors : int, optional
        Nearest landmarks used for each sample, 5 by default, as published.
    random_state : int, RandomState or None, default=None
        Seed of the landmarks and of k-means.

    Attributes
    ----------
    labels_ : ndarray of shape (n,)
        Cluster of each sample, numbered by falling size.
    embedding_ : ndarray of shape (n, n_clusters)
        Leading eigenvectors of the graph.

    Notes
    -----
    The paper does not give the width of the Gaussian. Here it is the root mean square distance of
    the samples to their nearest landmarks.

    Examples
    --------
    >>> from unbend.baselines import LandmarkSpectral
    >>> X = [[0], [1], [2], [8], [9]]
    >>> LandmarkSpectral(2, n_neighbors=2, random_state=0).fit(X).labels_.tolist()
    [0, 0, 0, 1, 1]
    """

    n_landmarks: int = 1000
    n_neighbors: int | None = None

    def _labels(self, X: NDArray[Any]) -> NDArray[np.int64]:
        if self.n_landmarks < self.n_clusters:
            raise ValueError(
                f"`n_landmarks` of LandmarkSpectral must be at least n_clusters="
                f"{self.n_clusters}, got {self.n_landmarks}; try 1000"
            )
        seed = check_random_state(self.random_state).randint(2**31 - 1)
        P = self._represent(X, self._landmarks(X, seed))
        self.embedding_ = _eigenvectors(P, self.n_clusters)
        return kmeans_labels(unit_rows(self.embedding_), self.n_clusters, self.random_state)

    def _landmarks(self, X: NDArray[Any], seed: int) -> NDArray[Any]:
        count = min(self.n_landmarks, len(X))
        if count == len(X):
            return X
        # k-means++ would take longer than everything else, and landmarks only need to cover X.
        model = cluster.KMeans(
            count, init="random", n_init=1, max_iter=_PLACEMENT_STEPS, random_state=seed
        )
        centres: NDArray[Any] = model.fit(X).cluster_centers_
        return centres

    def _represent(self, X: NDArray[Any], landmarks: NDArray[Any]) -> sp.csr_array:
        """P (n, m): each sample by its nearest landmarks."""
        r = min(self.n_neighbors or 5, len(landmarks))
        finder = NearestNeighbors(n_neighbors=r, algorithm="brute").fit(landmarks)
        distance, index = finder.kneighbors(X)
        squared = distance.astype(np.float64) ** 2
        # Divide each row by its largest weight first, so that the weights cannot all underflow.
        squared -= squared[:, :1]
        width = 2 * np.mean(distance.astype(np.float64) ** 2)
        weight = np.exp(-squared / (width if width > 0 else 1.0))
        weight /= weight.sum(axis=1, keepdims=True)
        rows = np.arange(0, r * len(X) + 1, r)
        return sp.csr_array((weight.ravel(), index.ravel(), rows), (len(X), len(landmarks)))


def _eigenvectors(P: sp.csr_array, k: int) -> NDArray[np.float64]:
    """The k leading eigenvectors of P Λ⁻¹ Pᵀ."""
    mass = np.asarray(P.sum(axis=0)).ravel()
    used = np.flatnonzero(mass > 0)
    scaled = sp.csr_array(P[:, used] / np.sqrt(mass[used]))
    gram = (scaled.T @ scaled).toarray()
    m = len(used)
    values, V = scipy.linalg.eigh((gram + gram.T) / 2, subset_by_index=[max(0, m - k), m - 1])
    U: NDArray[np.float64] = scaled @ (V / np.sqrt(np.maximum(values, np.finfo(float).eps)))
    return U
