"""MoCo v2: tell the key of a sample from a queue of earlier keys."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import normalize

from unbend.config import PretrainConfig
from unbend.networks import Network
from unbend.pretrain.losses import info_nce
from unbend.pretrain.method import Follower, Projected, hidden_width, mlp, width_of
from unbend.training import Terms, gather

__all__ = ["MoCo"]


class MoCo(Projected):
    """He et al., "Momentum contrast", CVPR 2020; Chen et al., "Improved baselines", 2020 (v2).

    The first view is the query; every further view gives keys, through a momentum copy of
    backbone and projector without gradient. The queue holds earlier keys, oldest first, and
    starts at random directions. The projector has one hidden layer as wide as h, without batch
    normalisation, and 128 outputs. τ = 0.2; the momentum is 0.999 for ImageNet, 0.99 for CIFAR.
    Published training: SGD 0.03 at batch 256, momentum 0.9, weight decay 1e-4, cosine. The
    shuffling of batch statistics between devices has no counterpart in one process.
    """

    queue: Tensor

    def __init__(self, network: Network, config: PretrainConfig, total_steps: int) -> None:
        own, n_in = config.moco, width_of(network)
        projector = mlp(n_in, hidden_width(network, own.hidden), own.dim, norm=False)
        super().__init__(network, config, total_steps, projector)
        self.keys = Follower(network.backbone, projector)
        self.register_buffer("queue", normalize(torch.randn(own.queue, own.dim), dim=1))
        self._fresh: list[Tensor] = []
        # A state that was gone back to knows nothing of the keys of the step it replaces.
        self.register_load_state_dict_post_hook(_forget_fresh)  # type: ignore[no-untyped-call]

    def forward(self, views: Sequence[Tensor]) -> Terms:
        query = gather(self.project(views[0]))
        losses = []
        for x in views[1:]:
            key = normalize(gather(self.keys(self.normalized(x))), dim=1)
            losses.append(info_nce(query, key, self.queue, self.config.moco.temperature))
            self._fresh.append(key.detach())
        return self.terms(torch.stack(losses).mean(), query)

    @torch.no_grad()
    def after_step(self, step: int) -> None:
        """The copy follows, and the step's keys push the oldest out of the queue."""
        self.keys.follow(self.config.moco.ema, self.network.backbone, self.projector)
        line = torch.cat([self.queue, *(key.to(self.queue) for key in self._fresh)])
        self.queue.copy_(line[-len(self.queue) :])
        self._fresh.clear()


def _forget_fresh(module: Any, incompatible: Any) -> None:
    module._fresh.clear()
