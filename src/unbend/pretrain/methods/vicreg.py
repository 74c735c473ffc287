"""VICReg: invariance between views, variance and decorrelation of the features."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from unbend.functional.checks import full_precision
from unbend.pretrain.method import Projected, PublishedTraining, pairs, same_shape
from unbend.rules import FACTOR, NOT_NEGATIVE, knob, whole
from unbend.training import Terms, gather

__all__ = ["VICReg", "VICRegConfig", "VICRegTerms", "vicreg_terms"]


@dataclass(frozen=True)
class VICRegConfig:
    """Bardes et al., "VICReg: variance-invariance-covariance regularization", ICLR 2022."""

    invariance: float = knob(25.0, NOT_NEGATIVE)
    variance: float = knob(25.0, NOT_NEGATIVE)
    covariance: float = knob(1.0, NOT_NEGATIVE)
    hidden: float = knob(4.0, FACTOR)  # in widths of h: 8192 for ResNet-50's 2048
    dim: int = knob(0, whole(0, most=65_536))  # 0: as wide as the hidden layers


class VICRegTerms(NamedTuple):
    """The three unweighted terms."""

    invariance: Tensor
    variance: Tensor
    covariance: Tensor


def vicreg_terms(
    Z: Tensor, Z_other: Tensor, target: float = 1.0, floor: float = 1e-4
) -> VICRegTerms:
    """Invariance, variance and covariance of two views, Eqs. (1) to (5) of VICReg.

    Invariance is the mean squared difference (per entry, as in the authors' runs), variance the
    mean hinge max(0, γ - √(Var + ε)) over columns and both views, covariance the sum of squared
    off-diagonal covariances divided by d, summed over both views.

    Parameters
    ----------
    Z, Z_other : Tensor of shape (n, d)
        Two views, n >= 2, not normalised.
    target, floor : float
        γ = 1 and ε = 1e-4.
    """
    Z, Z_other = same_shape(Z, Z_other, "vicreg_terms")
    n, d = Z.shape
    if n < 2:
        raise ValueError(f"`Z` of vicreg_terms must have 2 rows or more, got {n}; no variance")
    hinges, off_diagonals = [], []
    with full_precision(Z):
        for part in (Z, Z_other):
            centred = part - part.mean(0)
            hinges.append(F.relu(target - (part.var(0) + floor).sqrt()).mean())
            covariance = centred.mT @ centred / (n - 1)
            # All squares minus those of the diagonal, which needs no d×d mask.
            squares = covariance.square().sum() - covariance.diagonal().square().sum()
            off_diagonals.append(squares / d)
        return VICRegTerms(
            F.mse_loss(Z, Z_other),
            sum(hinges[1:], hinges[0]) / 2,
            sum(off_diagonals[1:], off_diagonals[0]),
        )


class VICReg(Projected):
    """Bardes, Ponce, LeCun, "VICReg: variance-invariance-covariance regularization for
    self-supervised learning", ICLR 2022.

    The expander has two hidden layers and an output, each four times as wide as h (8192 for the
    2048 of ResNet-50); weights 25, 25, 1. Published training: LARS 0.2 · batch/256,
    weight decay 1e-6, 10 epochs of warm-up, cosine.
    """

    name = "vicreg"
    Settings = VICRegConfig
    published = PublishedTraining("lars", 0.2, 1e-6)  # section 4.2
    short = VICRegConfig(hidden=1.0)
    depth = 2
    settings: VICRegConfig

    def forward(self, views: Sequence[Tensor]) -> Terms:
        settings = self.settings
        Z = [gather(self.project(x)) for x in views]
        losses = []
        for a, b in pairs(len(Z)):
            terms = vicreg_terms(Z[a], Z[b])
            losses.append(
                settings.invariance * terms.invariance
                + settings.variance * terms.variance
                + settings.covariance * terms.covariance
            )
        return self.terms(torch.stack(losses).mean(), Z[0])
