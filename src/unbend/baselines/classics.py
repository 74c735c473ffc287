"""k-means, spectral clustering, and UMAP with k-means, with the usual settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn import cluster
from sklearn.neighbors import kneighbors_graph
from sklearn.utils import check_random_state

from unbend.baselines.registry import peer
from unbend.baselines.selfexpression import spectral_labels
from unbend.baselines.vectors import VectorPeer
from unbend.labels.assign import canonical

__all__ = ["KMeans", "Spectral", "UMAPKMeans", "kmeans_labels", "umap_space"]


def kmeans_labels(
    X: NDArray[Any], n_clusters: int, random_state: Any, n_init: int = 10
) -> NDArray[np.int64]:
    """Labels of k-means, numbered by size, largest first."""
    model = cluster.KMeans(n_clusters, n_init=n_init, random_state=random_state)
    labels = model.fit_predict(X).astype(np.int64)
    numbered: NDArray[np.int64] = canonical(labels, n_clusters)[labels]
    return numbered


@peer("kmeans", "k-means, ten starts", year=1982)
@dataclass(eq=False, repr=False, kw_only=True)
class KMeans(VectorPeer):
    """scikit-learn's k-means with the interface of the peers.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters.
    n_init : int, default=10
        Number of starts; the best is kept.
    random_state : int, RandomState or None, default=None
        Seed.

    Attributes
    ----------
    labels_ : ndarray of shape (n,)
        Cluster of each sample, numbered by falling size.

    Examples
    --------
    >>> from unbend.baselines import KMeans
    >>> KMeans(2, random_state=0).fit([[0], [1], [2], [9]]).labels_.tolist()
    [0, 0, 0, 1]
    """

    n_init: int = 10

    def _labels(self, X: NDArray[Any]) -> NDArray[np.int64]:
        return kmeans_labels(X, self.n_clusters, self.random_state, self.n_init)


@peer("spectral", "spectral clustering of the nearest-neighbour graph", year=2001)
@dataclass(eq=False, repr=False, kw_only=True)
class Spectral(VectorPeer):
    """Spectral clustering of the graph of nearest neighbours.

    The graph comes from scikit-learn; an edge has weight ½ for each direction. The normalised
    embedding and k-means are those of the other peers. The default kernel of scikit-learn's
    ``SpectralClustering`` scores near chance on pixels; the graph does not.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters.
    n_neighbors : int, optional
        Neighbours of each sample, 10 by default; at most n − 1 are used.
    random_state : int, RandomState or None, default=None
        Seed of the eigenvectors' start and of k-means.

    Attributes
    ----------
    labels_ : ndarray of shape (n,)
        Cluster of each sample, numbered by falling size.
    affinity_matrix_ : csr_array of shape (n, n)
        The graph.

    Examples
    --------
    >>> from unbend.baselines import Spectral
    >>> Spectral(2, n_neighbors=1, random_state=0).fit([[0], [1], [2], [8], [9]]).labels_.tolist()
    [0, 0, 0, 1, 1]
    """

    n_neighbors: int | None = None

    def _labels(self, X: NDArray[Any]) -> NDArray[np.int64]:
        count = min(self.n_neighbors or 10, len(X) - 1)
        graph = sp.csr_array(kneighbors_graph(X, count, include_self=False))
        self.affinity_matrix_ = sp.csr_array((graph + graph.T) / 2)
        return spectral_labels(self.affinity_matrix_, self.n_clusters, self.random_state)


@peer("umap-kmeans", "UMAP, then k-means (needs the extra `peers`)", year=2018)
@dataclass(eq=False, repr=False, kw_only=True)
class UMAPKMeans(VectorPeer):
    """UMAP, then k-means in its space: a common and strong baseline.

    Needs ``pip install 'unbend[peers]'``.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters.
    n_neighbors : int, optional
        UMAP's, 15 by default; at most n − 1 are used.
    n_components : int, default=10
        Dimension of UMAP's space; 10 with ``min_dist=0`` is what its authors advise before
        clustering.
    min_dist : float, default=0
        UMAP's.
    random_state : int, RandomState or None, default=None
        Seed of both.

    Attributes
    ----------
    labels_ : ndarray of shape (n,)
        Cluster of each sample, numbered by falling size.
    embedding_ : ndarray of shape (n, n_components)
        UMAP's space.
    """

    n_neighbors: int | None = None
    n_components: int = 10
    min_dist: float = 0.0

    def _labels(self, X: NDArray[Any]) -> NDArray[np.int64]:
        self.embedding_ = umap_space(self, X)
        return kmeans_labels(self.embedding_, self.n_clusters, self.random_state)


def umap_space(estimator: Any, X: NDArray[Any]) -> NDArray[Any]:
    """Embed X by UMAP with the parameters of an estimator."""
    try:
        from umap import UMAP
    except ImportError as error:
        name = type(estimator).__name__
        raise ImportError(f"{name} needs umap: pip install 'unbend[peers]'") from error
    model = UMAP(
        n_neighbors=max(2, min(estimator.n_neighbors or 15, len(X) - 1)),
        n_components=estimator.n_components,
        min_dist=estimator.min_dist,
        # The spectral start needs more samples than dimensions.
        init="spectral" if len(X) > estimator.n_components + 1 else "random",
        random_state=check_random_state(estimator.random_state).randint(2**31 - 1),
        n_jobs=1,  # a fixed seed needs one thread; UMAP warns unless it is set
    )
    return np.asarray(model.fit_transform(X))
