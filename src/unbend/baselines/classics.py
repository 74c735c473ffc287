"""k-means, spectral clustering and UMAP with k-means, as everybody uses them."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn import cluster
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.neighbors import kneighbors_graph
from sklearn.utils import check_random_state
from sklearn.utils.validation import validate_data

from unbend.baselines.rules import check_count, check_rules
from unbend.baselines.selfexpression import spectral_labels
from unbend.labels.assign import canonical

__all__ = ["Classic", "KMeans", "Spectral", "UMAPKMeans"]


class Classic(ClusterMixin, BaseEstimator):
    """Base of the methods that take vectors as they are; a child has ``_labels``."""

    labels_: NDArray[np.int64]
    n_features_in_: int
    n_clusters: int
    random_state: Any

    def fit(self, X: Any, y: Any = None) -> Any:
        """Cluster X of shape (n, d); y is ignored."""
        check_rules(self)
        X = validate_data(self, X, dtype=[np.float64, np.float32], ensure_min_samples=2)
        check_count(self, len(X))
        self.labels_ = self._labels(X)
        return self

    def _labels(self, X: NDArray[Any]) -> NDArray[np.int64]:
        raise NotImplementedError

    def _kmeans(self, X: NDArray[Any], n_init: int) -> NDArray[np.int64]:
        model = cluster.KMeans(self.n_clusters, n_init=n_init, random_state=self.random_state)
        labels = model.fit_predict(X).astype(np.int64)
        numbered: NDArray[np.int64] = canonical(labels, self.n_clusters)[labels]
        return numbered


class KMeans(Classic):
    """scikit-learn's k-means under the contract of the peers.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters.
    n_init : int, default=10
        Starts, of which the best is kept.
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

    def __init__(self, n_clusters: int = 8, *, n_init: int = 10, random_state: Any = None) -> None:
        self.n_clusters = n_clusters
        self.n_init = n_init
        self.random_state = random_state

    def _labels(self, X: NDArray[Any]) -> NDArray[np.int64]:
        return self._kmeans(X, self.n_init)


class Spectral(Classic):
    """Spectral clustering of the graph of nearest neighbours.

    Neighbours by scikit-learn, each edge once or twice with weight ½ per direction, then the
    normalised embedding and k-means that all peers here share. The default kernel of
    scikit-learn's ``SpectralClustering`` scores near chance on pixels; the graph does not.

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

    def __init__(
        self, n_clusters: int = 8, *, n_neighbors: int | None = None, random_state: Any = None
    ) -> None:
        self.n_clusters = n_clusters
        self.n_neighbors = n_neighbors
        self.random_state = random_state

    def _labels(self, X: NDArray[Any]) -> NDArray[np.int64]:
        count = min(self.n_neighbors or 10, len(X) - 1)
        graph = sp.csr_array(kneighbors_graph(X, count, include_self=False))
        self.affinity_matrix_ = sp.csr_array((graph + graph.T) / 2)
        return spectral_labels(self.affinity_matrix_, self.n_clusters, self.random_state)


class UMAPKMeans(Classic):
    """UMAP, then k-means in its space: a strong habit of today's practice.

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

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        n_neighbors: int | None = None,
        n_components: int = 10,
        min_dist: float = 0.0,
        random_state: Any = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.n_neighbors = n_neighbors
        self.n_components = n_components
        self.min_dist = min_dist
        self.random_state = random_state

    def _labels(self, X: NDArray[Any]) -> NDArray[np.int64]:
        try:
            from umap import UMAP
        except ImportError as error:
            raise ImportError("UMAPKMeans needs umap: pip install 'unbend[peers]'") from error
        seed = check_random_state(self.random_state).randint(2**31 - 1)
        count = min(self.n_neighbors or 15, len(X) - 1)
        model = UMAP(
            n_neighbors=max(2, count),
            n_components=self.n_components,
            min_dist=self.min_dist,
            random_state=seed,
            n_jobs=1,  # a seed needs one thread; saying so keeps UMAP from warning
        )
        self.embedding_ = np.asarray(model.fit_transform(X))
        return self._kmeans(self.embedding_, 10)
