"""MoCo v2: distinguish the key of a sample from a queue of earlier keys."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.functional import normalize

from unbend.functional.checks import check_positive, check_tensor, full_precision
from unbend.knobs import Stage1Config
from unbend.networks import Network
from unbend.pretrain.method import Follower, Projected, PublishedTraining, same_shape
from unbend.rules import FACTOR, POSITIVE, SHARE, WIDTH, knob, whole
from unbend.training import Terms, gather

__all__ = ["MoCo", "MoCoConfig", "info_nce"]


@dataclass(frozen=True)
class MoCoConfig:
    """Chen et al., "Improved baselines with momentum contrastive learning" (MoCo v2), 2020."""

    temperature: float = knob(0.2, POSITIVE)
    # 65536 for ImageNet; a smaller data set holds fewer keys.
    queue: int = knob(4096, whole(1, most=2**20))
    ema: float = knob(0.99, SHARE)  # of the key encoder; 0.999 for ImageNet's longer epochs
    hidden: float = knob(1.0, FACTOR)
    dim: int = knob(128, WIDTH)


def info_nce(query: Tensor, key: Tensor, queue: Tensor, temperature: float = 0.2) -> Tensor:
    """Find the key of each query among the keys of a queue, Eq. (1) of MoCo.

    Parameters
    ----------
    query, key : Tensor of shape (n, d)
        Two views; normalised here. No gradient reaches the keys.
    queue : Tensor of shape (m, d)
        Keys of other samples, on the unit sphere.
    temperature : float, default=0.2
        τ of MoCo v2.
    """
    temperature = check_positive(temperature, "temperature", "info_nce", 0.2)
    query, key = same_shape(query, key, "info_nce")
    check_tensor(queue, "queue", "info_nce", "m, d")
    query, key = F.normalize(query, dim=1), F.normalize(key.detach(), dim=1)
    with full_precision(query):
        right = (query * key).sum(1, keepdim=True)
        wrong = query @ queue.detach().to(query).mT
        logits = torch.cat([right, wrong], 1) / temperature
        return F.cross_entropy(logits, logits.new_zeros(len(query), dtype=torch.long))


class MoCo(Projected):
    """He et al., "Momentum contrast", CVPR 2020; Chen et al., "Improved baselines", 2020 (v2).

    The first view is the query; every further view gives keys, through a momentum copy of
    backbone and projector without gradient. The queue holds earlier keys, oldest first, and
    starts with random directions. The projector has one hidden layer as wide as h, without batch
    normalisation, and 128 outputs. τ = 0.2; the momentum is 0.999 for ImageNet, 0.99 for CIFAR.
    Published training: SGD 0.03 at batch 256, momentum 0.9, weight decay 1e-4, cosine. Shuffled
    batch normalisation across devices has no counterpart in one process.
    """

    name = "moco"
    Settings = MoCoConfig
    published = PublishedTraining("sgd", 0.03, 1e-4, warmup=0.0)  # He et al.; v2: cosine
    short = MoCoConfig(ema=0.95, queue=1024)  # keys of the last few steps
    norm = False
    settings: MoCoConfig
    queue: Tensor

    def __init__(self, network: Network, config: Stage1Config, total_steps: int) -> None:
        super().__init__(network, config, total_steps)
        self.keys = Follower(network.backbone, self.projector)
        queue = torch.randn(self.settings.queue, self.settings.dim)
        self.register_buffer("queue", normalize(queue, dim=1))
        self._fresh: list[Tensor] = []
        # After the guard restores a state, the keys of the rejected step must not enter the queue.
        self.register_load_state_dict_post_hook(_forget_fresh)  # type: ignore[no-untyped-call]

    @classmethod
    def for_samples(cls, settings: MoCoConfig, n: int) -> MoCoConfig:
        """Limit the queue to half of the samples.

        A longer queue would hold older keys of the same samples and use them as negatives.
        """
        return replace(settings, queue=max(1, min(settings.queue, n // 2)))

    def forward(self, views: Sequence[Tensor]) -> Terms:
        query = gather(self.project(views[0]))
        losses = []
        for x in views[1:]:
            key = normalize(gather(self.keys(self.normalized(x))), dim=1)
            losses.append(info_nce(query, key, self.queue, self.settings.temperature))
            self._fresh.append(key.detach())
        return self.terms(torch.stack(losses).mean(), query)

    @torch.no_grad()
    def after_step(self, step: int) -> None:
        """Update the momentum copy, and replace the oldest keys of the queue by the step's."""
        self.keys.follow(self.settings.ema, self.network.backbone, self.projector)
        line = torch.cat([self.queue, *(key.to(self.queue) for key in self._fresh)])
        self.queue.copy_(line[-len(self.queue) :])
        self._fresh.clear()


def _forget_fresh(module: Any, incompatible: Any) -> None:
    module._fresh.clear()
