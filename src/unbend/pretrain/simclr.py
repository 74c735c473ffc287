"""SimCLR: tell the other view of a sample from all other features of the batch."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from unbend.config import PretrainConfig
from unbend.networks import Network
from unbend.pretrain.losses import nt_xent
from unbend.pretrain.method import Projected, hidden_width, mlp, pairs, width_of
from unbend.training import Terms, gather

__all__ = ["SimCLR"]


class SimCLR(Projected):
    """Chen, Kornblith, Norouzi, Hinton, "A simple framework for contrastive learning of visual
    representations", ICML 2020.

    The projector has one hidden layer as wide as h and 128 outputs; τ = 0.5 as for CIFAR-10.
    Published training: LARS, 0.3 · batch/256 (CIFAR: up to 1.5 · batch/256), weight decay 1e-6,
    10 epochs of warm-up, cosine. Large batches help, since they hold the negatives.
    """

    def __init__(self, network: Network, config: PretrainConfig, total_steps: int) -> None:
        own, n_in = config.simclr, width_of(network)
        projector = mlp(n_in, hidden_width(network, own.hidden), own.dim)
        super().__init__(network, config, total_steps, projector)

    def forward(self, views: Sequence[Tensor]) -> Terms:
        Z = [gather(self.project(x)) for x in views]
        losses = [nt_xent(Z[a], Z[b], self.config.simclr.temperature) for a, b in pairs(len(Z))]
        return self.terms(torch.stack(losses).mean(), Z[0])
