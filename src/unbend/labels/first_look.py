"""A first, provisional clustering of a few samples, to show before training."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from unbend.labels.assign import assign
from unbend.samples import nearest_neighbors
from unbend.samples.graph import graph_embedding

__all__ = ["first_look"]

_PILOT = 1500  # samples; takes half a second
_PER_CLUSTER = 5  # samples at least; with fewer there is nothing to see
_NEIGHBORS = 10
_SHOWN = 10  # sizes in the sentence


def first_look(samples: Tensor, k: int, metric: str) -> str | None:
    """One sentence about the sizes of k groups: spectral clustering of the neighbours of a pilot.

    None where the samples are too few or their graph has more pieces. No later result depends on
    it.
    """
    order = torch.randperm(len(samples), generator=torch.Generator().manual_seed(0))[:_PILOT]
    if k < 2 or len(order) < _PER_CLUSTER * k:
        return None
    pilot = samples[order.to(samples.device)].flatten(1).cpu()
    vectors = graph_embedding(nearest_neighbors(pilot, _NEIGHBORS, metric=metric), k)
    if vectors is None:
        return None
    sizes = np.sort(torch.bincount(assign(vectors, k), minlength=k).numpy())[::-1]
    shares = ", ".join(f"{size / len(order):.0%}" for size in sizes[:_SHOWN])
    more = ", ..." if k > _SHOWN else ""
    return (
        f"first look: spectral clustering of {len(order)} samples finds {k} groups with "
        f"{shares}{more} of them"
    )
