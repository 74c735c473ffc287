"""VICReg: views agree, columns vary, columns are uncorrelated."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from unbend.config import PretrainConfig
from unbend.networks import Network
from unbend.pretrain.losses import vicreg_terms
from unbend.pretrain.method import Projected, hidden_width, mlp, pairs, width_of
from unbend.training import Terms, gather

__all__ = ["VICReg"]


class VICReg(Projected):
    """Bardes, Ponce, LeCun, "VICReg: variance-invariance-covariance regularization for
    self-supervised learning", ICLR 2022.

    The expander has two hidden layers and an output of four times the width of h each (8192
    beside the 2048 of ResNet-50); weights 25, 25, 1. Published training: LARS 0.2 · batch/256,
    weight decay 1e-6, 10 epochs of warm-up, cosine.
    """

    def __init__(self, network: Network, config: PretrainConfig, total_steps: int) -> None:
        hidden = hidden_width(network, config.vicreg.hidden)
        projector = mlp(width_of(network), hidden, config.vicreg.dim or hidden, depth=2)
        super().__init__(network, config, total_steps, projector)

    def forward(self, views: Sequence[Tensor]) -> Terms:
        own = self.config.vicreg
        Z = [gather(self.project(x)) for x in views]
        losses = []
        for a, b in pairs(len(Z)):
            terms = vicreg_terms(Z[a], Z[b])
            losses.append(
                own.invariance * terms.invariance
                + own.variance * terms.variance
                + own.covariance * terms.covariance
            )
        return self.terms(torch.stack(losses).mean(), Z[0])
