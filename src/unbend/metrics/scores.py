"""ACC, NMI, AMI and ARI, and their chance level."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import linear_sum_assignment
from sklearn.metrics import (
    adjusted_mutual_info_score,
    adjusted_rand_score,
    normalized_mutual_info_score,
)
from sklearn.metrics.cluster import contingency_matrix

__all__ = ["Scores", "chance_scores", "clustering_accuracy", "clustering_scores"]


@dataclass(frozen=True)
class Scores:
    """How well clusters match true classes, and over how many samples."""

    n: int
    n_classes: int
    n_clusters: int
    acc: float
    nmi: float
    ami: float
    ari: float

    def to_dict(self) -> dict[str, Any]:
        """Plain dict, ready for JSON."""
        return asdict(self)


def clustering_accuracy(y_true: ArrayLike, y_pred: ArrayLike) -> float:
    """Share of samples in the right class under the best one-to-one match of clusters to classes.

    The match is optimal (Hungarian algorithm), not greedy. With more clusters than classes, the
    samples of unmatched clusters count as errors; with fewer, those of unmatched classes do.

    >>> clustering_accuracy([0, 0, 1, 1], [1, 1, 0, 2])
    0.75
    """
    true, pred = _labels(y_true, y_pred)
    table = contingency_matrix(true, pred)
    rows, columns = linear_sum_assignment(table, maximize=True)
    return float(table[rows, columns].sum() / len(true))


def clustering_scores(y_true: ArrayLike, y_pred: ArrayLike) -> Scores:
    """ACC, NMI (arithmetic mean), AMI and ARI of a clustering.

    NMI and ACC increase with the number of clusters even for random labels. AMI and ARI are
    corrected for chance, so report all four, and :func:`chance_scores`.
    """
    true, pred = _labels(y_true, y_pred)
    return Scores(
        n=len(true),
        n_classes=len(np.unique(true)),
        n_clusters=_n_clusters(pred),
        acc=clustering_accuracy(true, pred),
        nmi=float(normalized_mutual_info_score(true, pred)),
        ami=float(adjusted_mutual_info_score(true, pred)),
        ari=float(adjusted_rand_score(true, pred)),
    )


def _n_clusters(pred: NDArray[Any]) -> int:
    """How many labels there are, without -1, which is noise."""
    found = np.unique(pred)
    return int((found != -1).sum()) if found.dtype.kind in "iuf" else len(found)


def chance_scores(
    y_true: ArrayLike, y_pred: ArrayLike, *, n_draws: int = 10, seed: int = 0
) -> Scores:
    """Mean scores of clusters with the sizes of ``y_pred`` and random members."""
    true, pred = _labels(y_true, y_pred)
    if n_draws < 1:
        raise ValueError(f"`n_draws` of chance_scores must be an integer >= 1, got {n_draws}")
    rng = np.random.default_rng(seed)
    draws = [clustering_scores(true, rng.permutation(pred)) for _ in range(n_draws)]
    mean = {
        name: float(np.mean([getattr(d, name) for d in draws]))
        for name in ("acc", "nmi", "ami", "ari")
    }
    return Scores(len(true), draws[0].n_classes, draws[0].n_clusters, **mean)


def _labels(y_true: ArrayLike, y_pred: ArrayLike) -> tuple[NDArray[Any], NDArray[Any]]:
    true, pred = np.asarray(y_true), np.asarray(y_pred)
    for name, labels in (("y_true", true), ("y_pred", pred)):
        if labels.ndim != 1:
            raise ValueError(f"`{name}` must be a flat list of labels, got shape {labels.shape}")
    if len(true) != len(pred):
        raise ValueError(
            f"`y_true` and `y_pred` must be equally long, got {len(true)} and {len(pred)}"
        )
    if len(true) == 0:
        raise ValueError("`y_true` and `y_pred` are empty; nothing can be scored")
    return true, pred
