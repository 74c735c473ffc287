"""BYOL: predict the features of the other view from a momentum copy of the network."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from unbend.functional.checks import at_least_float32
from unbend.knobs import Stage1Config
from unbend.networks import Network
from unbend.pretrain.method import Follower, Projected, PublishedTraining, mlp, pairs, same_shape
from unbend.rules import FACTOR, SHARE, WIDTH, knob
from unbend.training import Terms, gather

__all__ = ["BYOL", "BYOLConfig", "byol_loss", "ema_at"]


@dataclass(frozen=True)
class BYOLConfig:
    """Grill et al., "Bootstrap your own latent", NeurIPS 2020."""

    ema: float = knob(0.996, SHARE)  # at the start; rises to 1 along a cosine
    hidden: float = knob(2.0, FACTOR)  # in widths of h: 4096 for ResNet-50's 2048
    dim: int = knob(256, WIDTH)


def byol_loss(prediction: Tensor, target: Tensor) -> Tensor:
    """Mean of 2 - 2 cos(prediction, target), Eq. (2) of BYOL; no gradient reaches the target.

    Parameters
    ----------
    prediction, target : Tensor of shape (n, d)
        The predictor's output for one view and the momentum encoder's for the other.
    """
    prediction, target = same_shape(prediction, target, "byol_loss")
    cosine = F.cosine_similarity(prediction, target.detach(), dim=1)
    return (2 - 2 * cosine).mean()


class BYOL(Projected):
    """Grill et al., "Bootstrap your own latent: a new approach to self-supervised learning",
    NeurIPS 2020.

    Projector and predictor have one hidden layer (4096 units for the 2048 of ResNet-50) and 256
    outputs. The target is a momentum copy of backbone and projector without gradient, whose
    momentum rises from 0.996 to 1 along a cosine. The loss is the sum over both directions.
    Published training: LARS 0.2 · batch/256, weight decay 1.5e-6, 10 epochs of warm-up, cosine.
    """

    name = "byol"
    Settings = BYOLConfig
    published = PublishedTraining("lars", 0.2, 1.5e-6)  # section 3.3
    short = BYOLConfig(ema=0.95, hidden=1.0, dim=128)
    settings: BYOLConfig

    def __init__(self, network: Network, config: Stage1Config, total_steps: int) -> None:
        super().__init__(network, config, total_steps)
        self.predictor = mlp(self.settings.dim, self.hidden, self.settings.dim)
        self.target = Follower(network.backbone, self.projector)

    def forward(self, views: Sequence[Tensor]) -> Terms:
        Z = [self.project(x) for x in views]
        predicted = [gather(at_least_float32(self.predictor(z))) for z in Z]
        wanted = [gather(self.target(self.normalized(x))) for x in views]
        losses = [
            byol_loss(predicted[a], wanted[b]) + byol_loss(predicted[b], wanted[a])
            for a, b in pairs(len(views))
        ]
        return self.terms(torch.stack(losses).mean(), gather(Z[0].detach()))

    def after_step(self, step: int) -> None:
        """Update the target with a momentum that rises towards 1."""
        momentum = ema_at(step, self.total_steps, self.settings.ema)
        self.target.follow(momentum, self.network.backbone, self.projector)


def ema_at(step: int, total: int, start: float) -> float:
    """1 - (1 - start) · (cos(π step/total) + 1)/2: from ``start`` up to 1.

    >>> ema_at(0, 100, 0.996), ema_at(100, 100, 0.996)
    (0.996, 1.0)
    """
    return 1 - (1 - start) * (math.cos(math.pi * step / max(1, total)) + 1) / 2
