"""The peers under one contract: ``fit(X)``, then ``labels_``, as in scikit-learn.

``METHODS`` names them for the benchmark; a method is called with ``n_clusters`` and
``random_state`` and gives an estimator. Nothing is imported before it is used.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from unbend.baselines.classics import KMeans, Spectral, UMAPKMeans
    from unbend.baselines.cpp import CPP
    from unbend.baselines.dssc import DSSC
    from unbend.baselines.ensc import EnSC
    from unbend.baselines.landmark_spectral import LandmarkSpectral
    from unbend.baselines.lsr import LSR
    from unbend.baselines.mcr2 import MCR2
    from unbend.baselines.nmce import NMCE
    from unbend.baselines.prodsc import PRODSC
    from unbend.baselines.ssc_omp import SSCOMP
    from unbend.baselines.tsc import TSC

__all__ = [
    "CPP",
    "DSSC",
    "EnSC",
    "KMeans",
    "LSR",
    "LandmarkSpectral",
    "MCR2",
    "METHODS",
    "Method",
    "NMCE",
    "PRODSC",
    "SSCOMP",
    "Spectral",
    "TSC",
    "UMAPKMeans",
]

# class → file of this room
_HOMES = {
    "CPP": "cpp",
    "DSSC": "dssc",
    "EnSC": "ensc",
    "KMeans": "classics",
    "LSR": "lsr",
    "LandmarkSpectral": "landmark_spectral",
    "MCR2": "mcr2",
    "NMCE": "nmce",
    "PRODSC": "prodsc",
    "SSCOMP": "ssc_omp",
    "Spectral": "classics",
    "TSC": "tsc",
    "UMAPKMeans": "classics",
}


@dataclass(frozen=True)
class Method:
    """A peer by name: its class, what it is, and settings that differ from the defaults.

    ``takes`` says what it is fitted on: "vectors" (images are flattened) or "images" too.
    """

    cls: str
    summary: str
    params: dict[str, Any] = field(default_factory=dict)
    takes: str = "vectors"

    def __call__(self, n_clusters: int, random_state: int | None = None, **changes: Any) -> Any:
        """The estimator, not yet fitted; ``changes`` are further parameters of it."""
        settings = {**self.params, **changes}
        return __getattr__(self.cls)(n_clusters, random_state=random_state, **settings)


METHODS: dict[str, Method] = {
    "kmeans": Method("KMeans", "k-means, ten starts"),
    "spectral": Method("Spectral", "spectral clustering of the nearest-neighbour graph"),
    "landmark-spectral": Method("LandmarkSpectral", "spectral clustering through landmarks"),
    "ensc": Method("EnSC", "elastic-net self-expression"),
    "ssc-omp": Method("SSCOMP", "self-expression by orthogonal matching pursuit"),
    "lsr": Method("LSR", "least-squares self-expression"),
    "tsc": Method("TSC", "thresholded inner products"),
    "a-dssc": Method("DSSC", "doubly stochastic affinity after self-expression"),
    "j-dssc": Method("DSSC", "doubly stochastic affinity and self-expression", {"joint": True}),
    "nmce": Method("NMCE", "rate reduction with a point-cluster membership", takes="images"),
    "cpp": Method("CPP", "MLC's successor for strong encoders", takes="images"),
    "pro-dsc": Method("PRODSC", "deep self-expression without collapse", takes="images"),
    "umap-kmeans": Method("UMAPKMeans", "UMAP, then k-means (needs the extra `peers`)"),
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
