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

__all__ = ["Update", "update_model"]


class Update(NamedTuple):
    """What :meth:`unbend.MLC.update` made of new samples."""

    labels: NDArray[np.int64]  # old clusters, new ones, or -1 for samples that fit nowhere yet
    new_clusters: list[int]
    n_waiting: int  # samples that fit nowhere, of this update and earlier ones


def update_model(model: FittedModel, samples: Tensor, min_size: int | None) -> Update:
    """Take in scaled samples; see :meth:`unbend.MLC.update`."""
    least = _least_size(model, min_size)
    C = model._network.encode(samples).C
    labels = model._probabilities(C, samples).argmax(axis=1)
    isolated = model._surroundings.score(samples) > model.outlier_threshold_
    rows = model._surroundings.place(samples[torch.from_numpy(isolated)])
    found = take_in(model._surroundings, rows, model._waiting, least, model.n_clusters_)
    labels[isolated] = found.groups
    new = [*range(model.n_clusters_, model.n_clusters_ + len(found.from_before))]
    model._surroundings, model._waiting = found.surroundings, found.waiting
    model.n_clusters_ += len(new)
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
    if isinstance(min_size, bool) or not isinstance(min_size, int) or min_size < 3:
        raise ValueError(f"`min_size` of update must be an integer >= 3, got {min_size!r}")
    return min_size
