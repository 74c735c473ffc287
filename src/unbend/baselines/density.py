"""Density-based clustering: UMAP with HDBSCAN, and EVoC. Both leave noise unlabelled."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import HDBSCAN
from sklearn.utils import check_random_state

from unbend.baselines.classics import umap_space
from unbend.baselines.registry import peer
from unbend.baselines.vectors import VectorPeer
from unbend.labels.assign import canonical
from unbend.rules import Rule, optional, whole

__all__ = ["EVoC", "UMAPHDBSCAN"]

_SIZES = 8  # how many values of min_cluster_size are tried if n_clusters is given


_FOUND = {"n_clusters": optional(whole(1))}  # these methods find the number themselves


@peer("umap-hdbscan", "UMAP, then HDBSCAN (needs the extra `peers`)", year=2018)
@dataclass(eq=False, repr=False, kw_only=True)
class UMAPHDBSCAN(VectorPeer):
    """UMAP, then HDBSCAN in its space: common practice if the number of groups is unknown.

    Needs ``pip install 'unbend[peers]'``. Samples outside dense regions are noise, with label -1.
    There is no ``predict``.

    Parameters
    ----------
    n_clusters : int or None, default=None
        None takes as many as HDBSCAN finds. With a number k, minimum cluster sizes from
        ``min_cluster_size`` to n/k are tried, with the most stable clusters of HDBSCAN's tree and
        with its leaves. The result with the nearest number of clusters is kept, of several the
        one with the least noise; the number may not be exactly k.
    n_neighbors : int, optional
        UMAP's, 15 by default; at most n − 1 are used.
    n_components : int, default=10
        Dimension of UMAP's space.
    min_dist : float, default=0
        UMAP's.
    min_cluster_size : int, optional
        Fewest samples in a cluster; 1 % of all samples by default, and at least 5.
    random_state : int, RandomState or None, default=None
        Seed of UMAP.

    Attributes
    ----------
    labels_ : ndarray of shape (n,)
        Cluster of each sample, numbered by falling size; -1 is noise.
    embedding_ : ndarray of shape (n, n_components)
        UMAP's space.
    """

    n_clusters: int | None = field(default=None, kw_only=False)
    n_neighbors: int | None = None
    n_components: int = 10
    min_dist: float = 0.0
    min_cluster_size: int | None = None

    rules: ClassVar[dict[str, Rule]] = _FOUND

    def _labels(self, X: NDArray[Any]) -> NDArray[np.int64]:
        self.embedding_ = umap_space(self, X)
        least = min(self.min_cluster_size or max(5, len(X) // 100), len(X))
        sizes, selections = [least], ["eom"]
        if self.n_clusters is not None:
            fair = max(least, len(X) // self.n_clusters)
            sizes = sorted(set(np.geomspace(least, fair, _SIZES).round().astype(int).tolist()))
            # The most stable clusters can be two at every size, as animals and vehicles are.
            selections = ["eom", "leaf"]
        found = [
            HDBSCAN(
                min_cluster_size=max(2, size), cluster_selection_method=selection, copy=True
            ).fit_predict(self.embedding_)
            for size in sizes
            for selection in selections
        ]
        return _numbered(_nearest(found, self.n_clusters))


@peer("evoc", "EVoC on embeddings (needs the extra `peers`)", year=2025)
@dataclass(eq=False, repr=False, kw_only=True)
class EVoC(VectorPeer):
    """EVoC (Embedding Vector Oriented Clustering): graph, node embedding, density, layers.

    Needs ``pip install 'unbend[peers]'``. Samples outside dense regions are noise, with label -1;
    10 to 20 % or more is usual. There is no ``predict``. EVoC's own benchmark takes the layer that
    fits the true labels best and scores without the noise; here ``n_clusters`` or the persistence
    chooses the layer, and scores count noise as one more cluster.

    Parameters
    ----------
    n_clusters : int or None, default=None
        None takes the layer of highest persistence; a number asks for a layer near it.
    n_neighbors : int, optional
        Of the graph, 15 by default; at most n − 1 are used.
    noise_level : float, default=0.5
        0 clusters more samples, 1 leaves more out.
    random_state : int, RandomState or None, default=None
        Seed.

    Attributes
    ----------
    labels_ : ndarray of shape (n,)
        Cluster of each sample, numbered by falling size; -1 is noise.
    cluster_layers_ : list of ndarray
        Labels of every layer, finest first.
    """

    n_clusters: int | None = field(default=None, kw_only=False)
    n_neighbors: int | None = None
    noise_level: float = 0.5

    rules: ClassVar[dict[str, Rule]] = _FOUND

    def _labels(self, X: NDArray[Any]) -> NDArray[np.int64]:
        try:
            import evoc
        except ImportError as error:
            raise ImportError("EVoC needs evoc: pip install 'unbend[peers]'") from error
        count = min(self.n_neighbors or 15, len(X) - 1)
        model = evoc.EVoC(
            noise_level=self.noise_level,
            approx_n_clusters=self.n_clusters,
            n_neighbors=count,
            # EVoC's own rule, but EVoC fails if samples have fewer dimensions than that.
            node_embedding_dim=min(max(count // 4, 4), 15, *X.shape),
            random_state=check_random_state(self.random_state).randint(2**31 - 1),
        )
        labels = model.fit_predict(np.ascontiguousarray(X, dtype=np.float32))
        self.cluster_layers_ = [np.asarray(layer) for layer in model.cluster_layers_]
        return _numbered(np.asarray(labels))


def _nearest(found: list[NDArray[Any]], k: int | None) -> NDArray[Any]:
    """The labelling with the number of clusters nearest to k; ties go to the least noise."""
    return min(found, key=lambda labels: (abs(labels.max() + 1 - (k or 0)), (labels < 0).sum()))


def _numbered(labels: NDArray[Any]) -> NDArray[np.int64]:
    """Number clusters by size, largest first; noise stays -1."""
    numbered = labels.astype(np.int64)
    inside = numbered >= 0
    if inside.any():
        kept = numbered[inside]
        numbered[inside] = canonical(kept, int(kept.max()) + 1)[kept]
    return numbered
