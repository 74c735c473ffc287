"""How close a representation is to a union of orthogonal subspaces."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from unbend.functional import numerical_rank as _numerical_rank

__all__ = [
    "SimilarityBlocks",
    "cluster_ranks",
    "largest_subspace_cosine",
    "numerical_rank",
    "similarity_blocks",
]


class SimilarityBlocks(NamedTuple):
    """Mean |zᵢᵀzⱼ| over pairs of one cluster and over pairs of different clusters."""

    within: float
    between: float


def numerical_rank(Z: ArrayLike, energy: float = 0.95) -> int:
    """The paper's numerical rank (§4): the least r whose r largest σ² exceed 95 % of their sum.

    >>> numerical_rank(np.diag([3.0, 3.0, 0.1]))
    2
    """
    return _numerical_rank(_features(Z), energy)


def cluster_ranks(Z: ArrayLike, y: ArrayLike, energy: float = 0.95) -> dict[Any, int]:
    """Numerical rank of the features of each cluster."""
    return {label: numerical_rank(part, energy) for label, part in _parts(Z, y).items()}


def largest_subspace_cosine(Z: ArrayLike, y: ArrayLike, energy: float = 0.95) -> float:
    """Largest |cos| of a principal angle between the subspaces of two clusters.

    The subspace of a cluster is spanned by its leading singular vectors, as many as its numerical
    rank. 0 means that all subspaces are orthogonal.
    """
    bases = []
    for part in _parts(Z, y).values():
        _, _, Vt = np.linalg.svd(part, full_matrices=False)
        bases.append(Vt[: numerical_rank(part, energy)])
    if len(bases) < 2:
        raise ValueError("`y` has only one cluster; an angle needs two")
    pairs = [(a, b) for i, a in enumerate(bases) for b in bases[i + 1 :]]
    # A cluster of zero vectors spans nothing and has no angles.
    return max(
        (float(np.linalg.norm(a @ b.T, 2)) for a, b in pairs if len(a) and len(b)), default=0
    )


def similarity_blocks(Z: ArrayLike, y: ArrayLike) -> SimilarityBlocks:
    """Mean |Z Zᵀ| within and between clusters, without the diagonal."""
    features, labels = _features(Z).numpy(), np.asarray(y)
    _match(features, labels)
    total = {True: 0.0, False: 0.0}
    count = {True: 0, False: 0}
    for start in range(0, len(features), 1024):
        rows = np.arange(start, min(start + 1024, len(features)))
        cosine = np.abs(features[rows] @ features.T)
        same = labels[rows, None] == labels[None]
        other = ~same
        same[np.arange(len(rows)), rows] = False
        for mask, key in ((same, True), (other, False)):
            total[key] += float(cosine[mask].sum())
            count[key] += int(mask.sum())
    return SimilarityBlocks(*(total[k] / max(count[k], 1) for k in (True, False)))


def _features(Z: ArrayLike) -> torch.Tensor:
    features = (
        Z.detach().cpu().double()
        if isinstance(Z, torch.Tensor)
        else torch.from_numpy(np.array(Z, dtype=np.float64))
    )
    if features.ndim != 2:
        raise ValueError(f"`Z` must be (n, d), got shape {tuple(features.shape)}")
    return features


def _match(Z: NDArray[Any], labels: NDArray[Any]) -> None:
    if labels.shape != (len(Z),):
        raise ValueError(f"`y` must have one label per row of Z, got {labels.shape} for {len(Z)}")


def _parts(Z: ArrayLike, y: ArrayLike) -> dict[Any, NDArray[np.float64]]:
    features, labels = _features(Z).numpy(), np.asarray(y)
    _match(features, labels)
    return {label: features[labels == label] for label in np.unique(labels).tolist()}
