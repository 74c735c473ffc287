"""SwAV: predict the prototypes of one view from another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.functional import normalize

from unbend.functional.checks import (
    check_count,
    check_positive,
    check_tensor,
    full_precision,
    working_dtype,
)
from unbend.knobs import Stage1Config
from unbend.networks import Network
from unbend.pretrain.method import Projected, PublishedTraining
from unbend.rules import COPIES, DEPTH, FACTOR, INNER_SHARE, POSITIVE, SHARE, WIDTH, knob, whole
from unbend.samples import ViewSampler
from unbend.training import Terms, gather

__all__ = ["SwAV", "SwAVConfig", "sinkhorn_codes", "swapped_prediction"]


@dataclass(frozen=True)
class SwAVConfig:
    """Caron et al., "Unsupervised learning by contrasting cluster assignments", NeurIPS 2020."""

    temperature: float = knob(0.1, POSITIVE)
    eps: float = knob(0.05, POSITIVE)  # entropy in the Sinkhorn-Knopp codes
    iterations: int = knob(3, COPIES)
    prototypes: int = knob(3000, whole(2, most=65_536))
    frozen: float = knob(0.005, SHARE)  # fraction of steps with fixed prototypes: 1 of 200 epochs
    small_crops: int = knob(6, DEPTH)  # images only, in addition to the full views
    small_size: float = knob(96 / 224, INNER_SHARE)  # side of a small crop relative to the image
    small_scale: tuple[float, float] = (0.05, 0.14)  # fraction of the area that a small crop keeps
    hidden: float = knob(1.0, FACTOR)
    dim: int = knob(128, WIDTH)


def sinkhorn_codes(scores: Tensor, eps: float = 0.05, n_iter: int = 3) -> Tensor:
    """Soft assignments of n features to k prototypes that use all prototypes equally.

    Eqs. (3) to (5) of SwAV: starting from exp(scores/ε), columns (prototypes) are scaled to sum
    to n/k and rows (features) to sum to 1, ``n_iter`` times. Rows sum to one exactly.

    Parameters
    ----------
    scores : Tensor of shape (n, k)
        Cosines of features and prototypes.
    eps : float, default=0.05
        Weight of entropy.
    n_iter : int, default=3
        Rounds of Sinkhorn-Knopp.
    """
    check_tensor(scores, "scores", "sinkhorn_codes", "n, k")
    eps = check_positive(eps, "eps", "sinkhorn_codes", 0.05)
    n_iter = check_count(n_iter, "n_iter", "sinkhorn_codes", 3)
    # Work with logarithms to avoid overflow; the constants n and k cancel in the rows.
    log_q = scores.to(working_dtype(scores)) / eps
    for _ in range(n_iter):
        log_q = log_q - log_q.logsumexp(0, keepdim=True)
        log_q = log_q - log_q.logsumexp(1, keepdim=True)
    return log_q.exp()


def swapped_prediction(
    scores: list[Tensor], n_full: int, temperature: float = 0.1, eps: float = 0.05, n_iter: int = 3
) -> Tensor:
    """Predict the codes of each full view from every other view, Eqs. (2) and (6) of SwAV.

    Parameters
    ----------
    scores : list of Tensor of shape (n, k)
        Cosines with the prototypes, the full views first, then the small crops.
    n_full : int
        How many of the views are full; only these give codes.
    temperature : float, default=0.1
        τ of the softmax over prototypes.
    eps, n_iter :
        Of :func:`sinkhorn_codes`.
    """
    temperature = check_positive(temperature, "temperature", "swapped_prediction", 0.1)
    if len(scores) < 2 or not 1 <= n_full <= len(scores):
        raise ValueError(
            f"`scores` of swapped_prediction must hold 2 views or more, got {len(scores)} of which "
            f"{n_full} are full"
        )
    with full_precision(scores[0]):
        logs = [F.log_softmax(s.to(working_dtype(s)) / temperature, dim=1) for s in scores]
        losses = []
        for a in range(n_full):
            codes = sinkhorn_codes(scores[a].detach(), eps, n_iter)
            others = [-(codes * logs[b]).sum(1).mean() for b in range(len(scores)) if b != a]
            losses.append(torch.stack(others).mean())
        return torch.stack(losses).mean()


class SwAV(Projected):
    """Caron et al., "Unsupervised learning of visual features by contrasting cluster
    assignments", NeurIPS 2020.

    Features and prototypes lie on the unit sphere. Codes are three rounds of Sinkhorn-Knopp with
    ε = 0.05 over the batch, without gradient; τ = 0.1; 3000 prototypes, fixed during the first
    epoch and normalised after each step. Multi-crop: in addition to the full views, 6 small crops
    of 96/224 of the side and 5-14 % of the area, which predict but give no codes. The projector
    has one hidden layer as wide as h and 128 outputs. Published training: LARS 0.6 at batch 256
    (4.8 at 4096), weight decay 1e-6, 10 epochs of warm-up, cosine. The queue for batches much
    smaller than the number of prototypes is not implemented: use fewer prototypes.
    """

    name = "swav"
    Settings = SwAVConfig
    # The power fits both published rates: 0.6 at 256 images and 4.8 at 4096.
    published = PublishedTraining("lars", 0.6, 1e-6, power=0.75)
    short = SwAVConfig(prototypes=100, small_crops=2, small_size=0.75, small_scale=(0.25, 0.55))
    settings: SwAVConfig
    steps_done: Tensor

    def __init__(self, network: Network, config: Stage1Config, total_steps: int) -> None:
        super().__init__(network, config, total_steps)
        swav = self.settings
        self.prototypes = nn.Parameter(normalize(torch.randn(swav.prototypes, swav.dim), dim=1))
        self.register_buffer("steps_done", torch.zeros((), dtype=torch.long))
        self.frozen_steps = 0 if swav.frozen == 0 else max(1, round(swav.frozen * total_steps))

    def draw(self, views: ViewSampler, index: Tensor) -> list[Tensor]:
        swav = self.settings
        full = list(views(index))
        if full[0].ndim != 4 or swav.small_crops == 0:
            return full
        if isinstance(self.network.backbone, nn.Sequential) and isinstance(
            self.network.backbone[0], nn.Flatten
        ):
            raise ValueError(
                "small crops need a convolutional backbone; use backbone='convnet' or set "
                "'pretrain.swav.small_crops' to 0"
            )
        return full + views.small(index, swav.small_crops, swav.small_size, swav.small_scale)

    def forward(self, views: Sequence[Tensor]) -> Terms:
        swav = self.settings
        Z = [gather(normalize(self.project(x), dim=1)) for x in views]
        fixed = int(self.steps_done) < self.frozen_steps
        prototypes = self.prototypes.detach() if fixed else self.prototypes
        with full_precision(Z[0]):
            scores = [z @ prototypes.to(z).mT for z in Z]
        n_full = sum(x.shape == views[0].shape for x in views)
        loss = swapped_prediction(scores, n_full, swav.temperature, swav.eps, swav.iterations)
        return self.terms(loss, Z[0])

    @torch.no_grad()
    def after_step(self, step: int) -> None:
        """Normalise the prototypes."""
        self.prototypes.copy_(normalize(self.prototypes, dim=1))
        self.steps_done.fill_(step + 1)
