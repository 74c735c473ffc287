"""Nearest-neighbour accuracy, a score of representations that needs no training."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch.nn.functional import normalize

from unbend.samples import nearest_neighbors

__all__ = ["knn_accuracy"]


def knn_accuracy(Z: ArrayLike, y: ArrayLike, k: int = 20, *, metric: str = "cosine") -> float:
    """Share of samples whose class is the most frequent one among their k nearest neighbours.

    Leave-one-out: a sample is never its own neighbour. Among equally frequent classes the one with
    the nearer neighbours wins.

    Parameters
    ----------
    Z : array of shape (n, ...)
        Representation; all axes after the first are flattened.
    y : array of shape (n,)
        True labels.
    k : int, default=20
        Number of neighbours; at most n - 1.
    metric : {"cosine", "euclidean"}, default="cosine"

    Examples
    --------
    >>> knn_accuracy([[1.0, 0.0], [1.0, 0.1], [0.0, 1.0], [0.1, 1.0]], [0, 0, 1, 1], k=1)
    1.0
    """
    features = Z.detach().cpu() if isinstance(Z, torch.Tensor) else torch.as_tensor(np.asarray(Z))
    labels = np.asarray(y)
    if features.ndim < 2 or len(features) < 2:
        raise ValueError(f"`Z` must be (n, d) with n >= 2, got shape {tuple(features.shape)}")
    if labels.shape != (len(features),):
        raise ValueError(
            f"`y` must have one label per row of Z, got {labels.shape} for {len(features)}"
        )
    if metric not in ("cosine", "euclidean"):
        raise ValueError(f"`metric` of knn_accuracy must be cosine or euclidean, got {metric!r}")
    if not torch.isfinite(features.double()).all():
        raise ValueError("`Z` of knn_accuracy must be finite; remove rows with NaN or infinity")
    if isinstance(k, bool) or not isinstance(k, (int, np.integer)) or not 1 <= k < len(features):
        raise ValueError(
            f"`k` of knn_accuracy must be an integer from 1 to n - 1 = {len(features) - 1}, got {k}"
        )
    features = features.flatten(1).double()
    features = normalize(features, dim=1) if metric == "cosine" else features
    _, numbers = np.unique(labels, return_inverse=True)
    classes = torch.from_numpy(numbers.astype(np.int64))
    near = classes[nearest_neighbors(features, k)]
    # One vote each, plus a bonus larger than the sum of the bonuses of all farther neighbours.
    weight = 1 + torch.exp2(-2.0 - torch.arange(k, dtype=torch.float64))
    votes = torch.zeros(len(features), int(classes.max()) + 1, dtype=torch.float64)
    votes.scatter_add_(1, near, weight.expand_as(near).contiguous())
    return float((votes.argmax(1) == classes).double().mean())
