"""Pairs of samples that should get the same cluster."""

from __future__ import annotations

import torch
from torch import Tensor

from unbend.progress import Progress, silent
from unbend.samples import nearest_neighbors

__all__ = ["Pairs", "few_neighbors"]


def few_neighbors(k: int, n: int, n_clusters: int) -> int:
    """Limit k to half the mean size of a cluster, so that most neighbours can share a cluster.

    >>> few_neighbors(50, 10_000, 10), few_neighbors(50, 1000, 50)
    (50, 10)
    """
    return min(k, max(1, n // (2 * n_clusters)))


class Pairs:
    """Draws one of the k nearest neighbours of each sample, uniformly.

    Parameters
    ----------
    features : Tensor of shape (n, d)
        Neighbours are those with the smallest angle as seen from the mean, as in MLC.
    k : int
        Number of neighbours, limited by :func:`few_neighbors`.
    n_clusters : int
        Number of clusters.
    generator : torch.Generator
        On the CPU.
    with_self : bool
        Whether a sample is one of its own neighbours, in addition to the k others.
    """

    def __init__(
        self,
        features: Tensor,
        k: int,
        n_clusters: int,
        generator: torch.Generator,
        *,
        with_self: bool = False,
        progress: Progress = silent,
    ) -> None:
        n = len(features)
        self.neighbors = nearest_neighbors(
            features, few_neighbors(k, n, n_clusters), progress=progress, metric="cosine"
        )
        if with_self:
            own = torch.arange(n, device=features.device)[:, None]
            self.neighbors = torch.cat([own, self.neighbors], 1)
        self.generator = generator

    def __call__(self, index: Tensor) -> Tensor:
        """A partner for each sample at ``index`` (b,)."""
        pick = torch.randint(self.neighbors.shape[1], index.shape, generator=self.generator)
        return self.neighbors[index.to(self.neighbors.device), pick.to(self.neighbors.device)]
