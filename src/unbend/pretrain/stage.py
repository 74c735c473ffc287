"""Running stage 1."""

from __future__ import annotations

from typing import Any

import torch
from lightning_fabric import Fabric
from torch.optim import AdamW, Optimizer

from unbend.config import PretrainConfig
from unbend.data import Batches, ViewSampler
from unbend.networks import Network
from unbend.pretrain.tcr import tcr_objective
from unbend.progress import Progress
from unbend.training import (
    LARS,
    Guard,
    History,
    Record,
    Terms,
    Watch,
    descend,
    gather,
    n_steps,
    share,
    warmup_cosine,
)

__all__ = ["METHODS", "pretrain"]

METHODS = ("tcr", "none")
STAGE = "stage 1"


def pretrain(
    network: Network,
    views: ViewSampler,
    config: PretrainConfig,
    *,
    generator: torch.Generator,
    fabric: Fabric,
    progress: Progress,
    record: Record | None = None,
    watch: Watch | None = None,
) -> History:
    """Train backbone and feature head so that views of a sample agree and samples differ."""
    if config.method not in METHODS:
        raise ValueError(
            f"`pretrain.method` must be one of {', '.join(METHODS)}, got {config.method!r}"
        )
    if config.method == "none":
        return []
    if views.config.n_views < 2:
        raise ValueError(
            f"`n_views` must be >= 2 for pretrain='tcr', got {views.config.n_views}; "
            "try n_views=2 or pretrain='none'"
        )
    params = [*network.backbone.parameters(), *network.feature_head.parameters()]
    optimizer: Any = fabric.setup_optimizers(_optimizer(params, config))
    batches = Batches(len(views), config.batch_size, generator)
    total = n_steps(
        len(views), config.batch_size, config.epochs, config.min_steps, config.max_steps
    )
    renewals = {round(total * r / (views.config.refresh + 1)) for r in _renewals(views)}

    weight = config.invariance * network.feature_head.dim

    def renew(step: int) -> None:
        if step in renewals:
            views.refresh(network.encode(views.samples).Z)

    def compute(step: int) -> Terms:
        X = views(next(batches))
        Z = torch.stack([gather(network.features(share(x)).float()) for x in X])
        tcr = tcr_objective(Z, config.eps_sq, weight)
        return Terms(-tcr.value, tcr.R, None, Z.mean(0))

    network.train()
    return descend(
        compute,
        [optimizer],
        n_steps=total,
        lr_factor=lambda step: warmup_cosine(step, total, config.warmup),
        guard=Guard(network, [optimizer], STAGE, network.feature_head.dim, config.eps_sq),
        fabric=fabric,
        progress=progress,
        accumulate=config.accumulate,
        max_norm=config.max_norm,
        before_step=renew,
        watch=watch,
        parts={"generator": generator, "views": views, "batches": batches},
        record=record,
        unit=views.unit,
    )


def _renewals(views: ViewSampler) -> range:
    return range(1, views.config.refresh + 1) if views.neighbors.shape[1] else range(0)


def _optimizer(params: list[torch.nn.Parameter], config: PretrainConfig) -> Optimizer:
    if config.optimizer == "lars":
        return LARS(params, config.lr, momentum=config.momentum, weight_decay=config.weight_decay)
    if config.optimizer == "adam":
        return AdamW(params, config.lr, (config.momentum, 0.999), weight_decay=config.weight_decay)
    raise ValueError(f"`pretrain.optimizer` must be lars or adam, got {config.optimizer!r}")
