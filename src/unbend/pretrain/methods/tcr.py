"""Total coding rate, the paper's self-supervised objective (Eq. 5)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from unbend.functional import coding_rate
from unbend.functional.checks import at_least_float32
from unbend.pretrain.method import Stage1Method
from unbend.training import Terms, gather

__all__ = ["TCR", "HeadStart", "TotalCodingRate", "tcr_objective"]


class TCR(NamedTuple):
    """The objective, to be maximised, and its two parts."""

    value: Tensor
    R: Tensor
    cosine: Tensor


def tcr_objective(Z_views: Tensor, eps_sq: float = 0.2, invariance: float = 60.0) -> TCR:
    """R of the mean of the views plus λ times their mean |cosine|.

    The paper's Eq. (5) for two views::

        max  R((Z + Z')/2; ε) + λ Σ_i |z_iᵀ z'_i|

    The first term spreads different samples over many directions; the second keeps the views of
    a sample together. With more than two views the cosine is averaged over all pairs.

    Parameters
    ----------
    Z_views : Tensor of shape (A, n, d)
        Features of A ≥ 2 views on the unit sphere.
    eps_sq : float, default=0.2
        ε².
    invariance : float, default=60
        λ·n: the weight of the *mean* cosine, which does not depend on the batch size. The paper
        does not state its λ. NMCE, which introduced this objective, uses 30 with R/2 (Li et al.,
        2022), hence 60 with R.
    """
    if Z_views.ndim != 3 or len(Z_views) < 2:
        raise ValueError(
            f"`Z_views` of tcr_objective must be (A, n, d) with A >= 2, got {tuple(Z_views.shape)}"
        )
    R = coding_rate(Z_views.mean(0), eps_sq)
    pairs = [(a, b) for b in range(len(Z_views)) for a in range(b)]
    cosines = [(Z_views[a] * Z_views[b]).sum(1).abs().mean() for a, b in pairs]
    cosine = sum(cosines[1:], start=cosines[0]) / len(cosines)
    return TCR(R + invariance * cosine, R, cosine)


class TotalCodingRate(Stage1Method):
    """The paper's stage 1: backbone and feature head maximise :func:`tcr_objective` (Eq. 5).

    The feature head is the projector, so stage 2 can continue with it. Published training (paper
    and NMCE): LARS 0.3, weight decay 1e-4, batch 1024, 1000 epochs, 10 of them warm-up, cosine;
    ε² = 0.2. The preset "paper" has these values.
    """

    name = "tcr"

    @property
    def dim(self) -> int:
        return self.network.feature_head.dim

    def forward(self, views: Sequence[Tensor]) -> Terms:
        Z = torch.stack([gather(at_least_float32(self.features(x))) for x in views])
        weight = self.config.invariance * self.dim
        tcr = tcr_objective(Z, self.config.eps_sq, weight)
        return Terms(-tcr.value, tcr.R, None, Z.mean(0))

    def features(self, x: Tensor) -> Tensor:
        """Features of samples (b, ...)."""
        return self.network.features(x)

    def representation(self, samples: Tensor) -> Tensor:
        return self.network.encode(samples).Z

    def trainable(self) -> list[nn.Parameter]:
        return [*self.network.backbone.parameters(), *self.network.feature_head.parameters()]


class HeadStart(TotalCodingRate):
    """Train the feature head after a method that has its own projector.

    Such a method leaves a trained backbone and a projector made for another loss. MLC-MoCoV2 of
    the paper uses the backbone with new heads. A random head would discard most of what the
    backbone learned, so it is first trained with TCR on the frozen backbone.
    """

    stage = "stage 1 head"

    def features(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            h = self.network.embed(x)
        Z: Tensor = self.network.feature_head(h)
        return Z

    def train(self, mode: bool = True) -> HeadStart:
        """Keep the backbone in evaluation mode, so that its statistics do not change."""
        super().train(mode)
        self.network.backbone.eval()
        return self

    def trainable(self) -> list[nn.Parameter]:
        return list(self.network.feature_head.parameters())
