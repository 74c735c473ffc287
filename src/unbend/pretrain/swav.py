"""SwAV: predict the prototypes of one view from another."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from unbend.config import PretrainConfig
from unbend.data import ViewSampler
from unbend.functional.checks import full_precision
from unbend.networks import Network
from unbend.pretrain.losses import swapped_prediction
from unbend.pretrain.method import Projected, hidden_width, mlp, width_of
from unbend.training import Terms, gather

__all__ = ["SwAV"]


class SwAV(Projected):
    """Caron et al., "Unsupervised learning of visual features by contrasting cluster
    assignments", NeurIPS 2020.

    Features and prototypes lie on the unit sphere. Codes are three rounds of Sinkhorn-Knopp with
    ε = 0.05 over the batch, without gradient; τ = 0.1; 3000 prototypes, fixed during the first
    epoch and brought back to the sphere after each step. Multi-crop: beside the full views, 6
    small crops of 96/224 of the side and 5-14 % of the area, which predict but give no codes.
    The projector has one hidden layer as wide as h and 128 outputs. Published training: LARS
    0.6 at batch 256 (4.8 at 4096), weight decay 1e-6, 10 epochs of warm-up, cosine. The queue
    for batches much smaller than the prototypes is left out: take fewer prototypes.
    """

    steps_done: Tensor

    def __init__(self, network: Network, config: PretrainConfig, total_steps: int) -> None:
        own = config.swav
        projector = mlp(width_of(network), hidden_width(network, own.hidden), own.dim)
        super().__init__(network, config, total_steps, projector)
        self.prototypes = nn.Parameter(normalize(torch.randn(own.prototypes, own.dim), dim=1))
        self.register_buffer("steps_done", torch.zeros((), dtype=torch.long))
        self.frozen_steps = 0 if own.frozen == 0 else max(1, round(own.frozen * total_steps))

    def draw(self, views: ViewSampler, index: Tensor) -> list[Tensor]:
        own = self.config.swav
        full = list(views(index))
        if full[0].ndim != 4 or own.small_crops == 0:
            return full
        if isinstance(self.network.backbone, nn.Sequential) and isinstance(
            self.network.backbone[0], nn.Flatten
        ):
            raise ValueError(
                "small crops need a convolutional backbone; take backbone='convnet' or set "
                "'pretrain.swav.small_crops' to 0"
            )
        return full + views.small(index, own.small_crops, own.small_size, own.small_scale)

    def forward(self, views: Sequence[Tensor]) -> Terms:
        own = self.config.swav
        Z = [gather(normalize(self.project(x), dim=1)) for x in views]
        fixed = int(self.steps_done) < self.frozen_steps
        prototypes = self.prototypes.detach() if fixed else self.prototypes
        with full_precision(Z[0]):
            scores = [z @ prototypes.to(z).mT for z in Z]
        n_full = sum(x.shape == views[0].shape for x in views)
        loss = swapped_prediction(scores, n_full, own.temperature, own.eps, own.iterations)
        return self.terms(loss, Z[0])

    @torch.no_grad()
    def after_step(self, step: int) -> None:
        """Prototypes return to the sphere."""
        self.prototypes.copy_(normalize(self.prototypes, dim=1))
        self.steps_done.fill_(step + 1)
