"""SimCLR: distinguish the other view of a sample from all other features of the batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from unbend.functional.checks import check_positive, full_precision
from unbend.pretrain.method import Projected, PublishedTraining, pairs, same_shape
from unbend.rules import FACTOR, POSITIVE, WIDTH, knob
from unbend.training import Terms, gather

__all__ = ["SimCLR", "SimCLRConfig", "nt_xent"]


@dataclass(frozen=True)
class SimCLRConfig:
    """Chen et al., "A simple framework for contrastive learning", ICML 2020."""

    temperature: float = knob(0.5, POSITIVE)  # best for CIFAR-10 (appendix B.9); 0.1 for ImageNet
    hidden: float = knob(1.0, FACTOR)  # hidden units of the projector, in widths of h
    dim: int = knob(128, WIDTH)  # its output


def nt_xent(Z: Tensor, Z_other: Tensor, temperature: float = 0.5) -> Tensor:
    """Normalised temperature-scaled cross entropy of two views, Eq. (1) of SimCLR.

    For each of the 2n features, the other view of its sample is the positive among the 2n - 1
    other features of the batch.

    Parameters
    ----------
    Z, Z_other : Tensor of shape (n, d)
        Two views; normalised here.
    temperature : float, default=0.5
        τ; 0.5 is best for CIFAR-10 (Chen et al., 2020, appendix B.9).
    """
    temperature = check_positive(temperature, "temperature", "nt_xent", 0.5)
    Z, Z_other = same_shape(Z, Z_other, "nt_xent")
    n = len(Z)
    both = F.normalize(torch.cat([Z, Z_other]), dim=1)
    with full_precision(both):
        logits = (both @ both.mT) / temperature
        logits = logits.masked_fill(torch.eye(2 * n, dtype=torch.bool, device=Z.device), -torch.inf)
        return F.cross_entropy(logits, torch.arange(2 * n, device=Z.device).roll(n))


class SimCLR(Projected):
    """Chen, Kornblith, Norouzi, Hinton, "A simple framework for contrastive learning of visual
    representations", ICML 2020.

    The projector has one hidden layer as wide as h and 128 outputs; τ = 0.5 as for CIFAR-10.
    Published training: LARS, 0.3 · batch/256 (CIFAR: up to 1.5 · batch/256), weight decay 1e-6,
    10 epochs of warm-up, cosine. Large batches help because they provide the negatives.
    """

    name = "simclr"
    Settings = SimCLRConfig
    published = PublishedTraining("lars", 0.3, 1e-6)  # section 2.2
    settings: SimCLRConfig

    def forward(self, views: Sequence[Tensor]) -> Terms:
        Z = [gather(self.project(x)) for x in views]
        losses = [nt_xent(Z[a], Z[b], self.settings.temperature) for a, b in pairs(len(Z))]
        return self.terms(torch.stack(losses).mean(), Z[0])
