"""Calibration of confidence: its mean and the purity of the samples, in bins."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.metrics.cluster import contingency_matrix

__all__ = ["reliability"]

_BINS = 15


def reliability(y: ArrayLike, labels: ArrayLike, confidence: ArrayLike) -> dict[str, Any]:
    """Expected calibration error of confidence against purity, and the bins behind it.

    A sample counts as right if its class is the most frequent one in its cluster.

    Parameters
    ----------
    y, labels : array-like of shape (n,)
        True classes and clusters. Samples with the label -1 are left out.
    confidence : array-like of shape (n,)
        Probability of the assigned cluster.

    Returns
    -------
    dict
        ``ece``, ``purity``, ``confidence`` (means), and ``bins`` with ``confidence``, ``purity``
        and ``n`` for each of fifteen bins that is not empty.

    Examples
    --------
    >>> found = reliability([0, 0, 1, 1], [0, 0, 1, 0], [1.0, 0.9, 0.9, 0.9])
    >>> found["purity"], round(found["ece"], 3)
    (0.75, 0.175)
    """
    true, found = np.asarray(y), np.asarray(labels)
    sure = np.asarray(confidence, dtype=np.float64)
    if not len(true) == len(found) == len(sure):
        raise ValueError(
            "`y`, `labels` and `confidence` of reliability must be equally long, got "
            f"{len(true)}, {len(found)} and {len(sure)}"
        )
    if not ((sure >= 0) & (sure <= 1 + 1e-6)).all():
        raise ValueError("`confidence` of reliability must be probabilities from 0 to 1")
    kept = found >= 0 if found.dtype.kind in "iuf" else np.ones(len(found), dtype=bool)
    true, found, sure = true[kept], found[kept], sure[kept]
    right = _is_right(true, found)
    place = np.minimum((sure * _BINS).astype(int), _BINS - 1)
    bins = [
        {
            "confidence": float(sure[place == b].mean()),
            "purity": float(right[place == b].mean()),
            "n": int((place == b).sum()),
        }
        for b in np.unique(place)
    ]
    error = sum(row["n"] * abs(row["confidence"] - row["purity"]) for row in bins)
    return {
        "ece": error / max(1, len(sure)),
        "purity": float(right.mean()) if len(right) else 0.0,
        "confidence": float(sure.mean()) if len(sure) else 0.0,
        "bins": bins,
    }


def _is_right(y: NDArray[Any], labels: NDArray[Any]) -> NDArray[np.bool_]:
    classes, clusters = np.unique(y), np.unique(labels)
    if not len(clusters):
        return np.zeros(0, dtype=bool)
    majority = classes[contingency_matrix(y, labels).argmax(axis=0)]
    found: NDArray[np.bool_] = majority[np.searchsorted(clusters, labels)] == y
    return found
