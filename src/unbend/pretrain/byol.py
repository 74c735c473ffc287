"""BYOL: predict what a slower copy of oneself sees in the other view."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from unbend.config import PretrainConfig
from unbend.networks import Network
from unbend.pretrain.losses import byol_loss
from unbend.pretrain.method import Follower, Projected, hidden_width, mlp, pairs, width_of
from unbend.training import Terms, gather

__all__ = ["BYOL", "ema_at"]


class BYOL(Projected):
    """Grill et al., "Bootstrap your own latent: a new approach to self-supervised learning",
    NeurIPS 2020.

    Projector and predictor have one hidden layer (4096 beside the 2048 of ResNet-50) and 256
    outputs. The target is a momentum copy of backbone and projector without gradient, whose
    momentum rises from 0.996 to 1 along a cosine. The loss is the sum over both directions.
    Published training: LARS 0.2 · batch/256, weight decay 1.5e-6, 10 epochs of warm-up, cosine.
    """

    def __init__(self, network: Network, config: PretrainConfig, total_steps: int) -> None:
        own, hidden = config.byol, hidden_width(network, config.byol.hidden)
        projector = mlp(width_of(network), hidden, own.dim)
        super().__init__(network, config, total_steps, projector)
        self.predictor = mlp(own.dim, hidden, own.dim)
        self.target = Follower(network.backbone, projector)

    def forward(self, views: Sequence[Tensor]) -> Terms:
        Z = [self.project(x) for x in views]
        predicted = [gather(self.predictor(z).float()) for z in Z]
        wanted = [gather(self.target(self.normalized(x))) for x in views]
        losses = [
            byol_loss(predicted[a], wanted[b]) + byol_loss(predicted[b], wanted[a])
            for a, b in pairs(len(views))
        ]
        return self.terms(torch.stack(losses).mean(), gather(Z[0].detach()))

    def after_step(self, step: int) -> None:
        """The target follows, slower and slower."""
        momentum = ema_at(step, self.total_steps, self.config.byol.ema)
        self.target.follow(momentum, self.network.backbone, self.projector)


def ema_at(step: int, total: int, start: float) -> float:
    """1 - (1 - start) · (cos(π step/total) + 1)/2: from ``start`` up to 1.

    >>> ema_at(0, 100, 0.996), ema_at(100, 100, 0.996)
    (0.996, 1.0)
    """
    return 1 - (1 - start) * (math.cos(math.pi * step / max(1, total)) + 1) / 2
