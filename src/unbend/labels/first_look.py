"""A first, provisional clustering of a few samples, to show before training."""

from __future__ import annotations

import numpy as np
import scipy.linalg
import torch
from scipy.sparse import csr_array
from torch import Tensor

from unbend.labels.assign import assign
from unbend.samples import nearest_neighbors

__all__ = ["first_look"]

_PILOT = 1500  # samples; takes half a second
_PER_CLUSTER = 5  # samples at least; with fewer there is nothing to see
_NEIGHBORS = 10
_SHOWN = 10  # sizes in the sentence


def first_look(samples: Tensor, k: int, metric: str) -> str | None:
    """One sentence about the sizes of k groups: spectral clustering of the neighbours of a pilot.

    None where the samples are too few. No later result depends on it.
    """
    order = torch.randperm(len(samples), generator=torch.Generator().manual_seed(0))[:_PILOT]
    if k < 2 or len(order) < _PER_CLUSTER * k:
        return None
    pilot = samples[order.to(samples.device)].flatten(1).cpu()
    sizes = np.sort(torch.bincount(_groups(pilot, k, metric), minlength=k).numpy())[::-1]
    shares = ", ".join(f"{size / len(order):.0%}" for size in sizes[:_SHOWN])
    more = ", ..." if k > _SHOWN else ""
    return (
        f"first look: spectral clustering of {len(order)} samples finds {k} groups with "
        f"{shares}{more} of them"
    )


def _groups(X: Tensor, k: int, metric: str) -> Tensor:
    n = len(X)
    near = nearest_neighbors(X, _NEIGHBORS, metric=metric).numpy()
    rows = np.repeat(np.arange(n), near.shape[1])
    edges = csr_array((np.ones(near.size), (rows, near.ravel())), shape=(n, n))
    edges = csr_array(edges.maximum(edges.T))
    root = np.sqrt(np.asarray(edges.sum(axis=1)).ravel())
    adjacency = (edges.toarray() / root[:, None] / root).astype(np.float32)
    # All of it is in memory: Lanczos iteration misses copies of the eigenvalue 1, and a graph in
    # several pieces has one for each.
    _, vectors = scipy.linalg.eigh(adjacency, subset_by_index=[n - k, n - 1])
    return assign(torch.from_numpy(np.ascontiguousarray(vectors[:, ::-1])), k).cpu()
