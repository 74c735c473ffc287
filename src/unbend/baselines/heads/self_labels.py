"""Self-labelling: strong views learn the labels of confident samples."""

from __future__ import annotations

import warnings

import torch
from torch import Tensor

from unbend.baselines.heads.session import Session
from unbend.baselines.heads.views import VectorViews
from unbend.exceptions import UnbendWarning

__all__ = ["confident_loss", "learn_from_self"]

_BATCH = 1000  # as published; classes are weighted by their counts in it
_RATE = 1e-4  # of a whole network, as published; 1e-3 put all of Fashion-MNIST in one cluster


def confident_loss(log_p: Tensor, P: Tensor, threshold: float) -> Tensor:
    """Cross entropy between strong views and the confident labels of their samples, (H,).

    A sample counts if its largest probability is above the threshold. Present classes are weighted
    by the inverse of their counts, so that none dominates; the loss is the weighted mean. A head
    without any confident sample has loss zero.

    Parameters
    ----------
    log_p : Tensor of shape (H, b, k)
        Log-probabilities of the strong views.
    P : Tensor of shape (H, b, k)
        Probabilities of the samples; no gradient reaches them.
    threshold : float
        In (0, 1).
    """
    confidence, labels = P.detach().max(-1)
    sure = (confidence > threshold).to(log_p)
    chosen = torch.nn.functional.one_hot(labels, P.shape[-1]).to(log_p) * sure[..., None]
    counts = chosen.sum(-2, keepdim=True)
    weight = (chosen / counts.clamp_min(1)).sum(-1)
    present = (counts > 0).sum((-2, -1)).clamp_min(1)
    return -(weight * (chosen * log_p).sum(-1)).sum(-1) / present


def learn_from_self(
    session: Session,
    neighbors: Tensor,
    threshold: float,
    *,
    epochs: int,
    lr: float | None,
) -> None:
    """Train with :func:`confident_loss`; skip with a warning if no sample is confident."""
    views = session.views
    if isinstance(views, VectorViews):
        views.neighbors = neighbors
    if float(session.probabilities().max()) <= threshold:
        warnings.warn(
            f"skipped self-labelling: no sample has a probability above {threshold:g}; "
            "use a smaller `threshold`",
            UnbendWarning,
            stacklevel=5,
        )
        return

    def compute(index: Tensor, step: int) -> Tensor:
        P = session.probabilities(views.features(index))
        return confident_loss(session.log_p(views.strong(index)), P, threshold)

    session.model.train()
    session.descend(
        "self-labelling",
        compute,
        session.model.parameters(),
        lr=lr or (_RATE if session.on_images else None),
        epochs=epochs,
        batch_size=_BATCH,
        min_steps=session.min_steps // 2,
        weight_decay=1e-4 if session.on_images else 0.0,
    )
