"""New samples after the fit: label those that fit, and look for new clusters among the others."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unbend.labels import take_in

if TYPE_CHECKING:
    from unbend.estimator.fitted import FittedModel

__all__ = ["LEAST_NEW", "Update", "update_model"]

# Samples of a new cluster: most of the ten nearest, at which `predict` looks, must be of it.
LEAST_NEW = 8


class Update(NamedTuple):
    """What :meth:`unbend.MLC.update` made of new samples."""

    labels: NDArray[np.int64]  # old clusters, new ones, or -1 for samples that fit nowhere yet
    new_clusters: list[int]
    n_waiting: int  # samples that fit nowhere, of this update and earlier ones


def update_model(model: FittedModel, samples: Tensor, min_size: int | None) -> Update:
    """Take in scaled samples; see :meth:`unbend.MLC.update`."""
    least, threshold = _least_size(model, min_size), model.outlier_threshold_
    isolated = model._surroundings.score(samples) > threshold
    rows = model._surroundings.place(samples[torch.from_numpy(isolated)])
    old, around = model.n_clusters_, model._surroundings
    found = take_in(around, rows, model._waiting, least, old, threshold)
    new = [*range(old, old + len(found.from_before))]
    model._surroundings, model._waiting = found.surroundings, found.waiting
    model.n_clusters_ += len(new)
    # As `predict` says from now on, which knows the new clusters.
    labels = model._probabilities(model._network.encode(samples).C, samples).argmax(axis=1)
    alone = isolated.copy()
    if new:
        alone[isolated] = model._surroundings.score(samples[torch.from_numpy(isolated)]) > threshold
    labels[alone] = -1
    in_group = np.zeros(len(labels), dtype=bool)
    in_group[isolated] = found.groups >= 0
    labels[in_group] = found.groups[found.groups >= 0]
    clusters = [
        {"cluster": q, "size": int((labels == q).sum()) + before, "had_waited": before}
        for q, before in zip(new, found.from_before, strict=True)
    ]
    row = {"n": len(labels), "n_fitted": int((~isolated).sum()), "n_waiting": len(model._waiting)}
    model.updates_.append({**row, "new_clusters": clusters})
    return Update(labels, new, len(model._waiting))


def _least_size(model: FittedModel, min_size: int | None) -> int:
    """Fewest samples of a new cluster."""
    if min_size is None:
        labels = model._label_model
        sizes = np.bincount(labels.labels, minlength=labels.n_clusters)
        return int(np.clip(sizes.min() // 4, 10, 50))
    whole = isinstance(min_size, (int, np.integer)) and not isinstance(min_size, bool)
    if not whole or min_size < LEAST_NEW:
        raise ValueError(
            f"`min_size` of update must be an integer >= {LEAST_NEW}, got {min_size!r}; smaller "
            "clusters would be outvoted by others among the ten nearest samples"
        )
    return int(min_size)
