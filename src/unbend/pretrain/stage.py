"""Run stage 1."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch.optim import SGD, AdamW, Optimizer

from unbend.exceptions import CollapseWarning
from unbend.knobs import Stage1Config
from unbend.networks import Network
from unbend.pretrain.encoder import load_backbone
from unbend.pretrain.method import Stage1Method
from unbend.pretrain.methods.tcr import HeadStart, TotalCodingRate
from unbend.pretrain.registry import METHODS, build_method, fit_to_data, is_path
from unbend.samples import Batches, ViewSampler
from unbend.training import (
    LARS,
    RATE_FLOOR,
    Guard,
    History,
    Stage,
    Terms,
    Tools,
    descend,
    fused_for,
    share,
    steps_of,
    synchronize,
    warmup_cosine,
)

__all__ = ["make_optimizer", "pretrain", "train"]

_COLLAPSED = 0.01  # of the way from the rate of one direction to that of all directions


def pretrain(network: Network, views: ViewSampler, config: Stage1Config, tools: Tools) -> History:
    """Train backbone and feature head so that views of a sample agree and samples differ.

    TCR, the paper's method, trains both at once. Every other method, and an encoder from disk,
    provides only the backbone; the feature head is then trained with ``head_steps`` steps of TCR
    on the frozen backbone (see :class:`~unbend.pretrain.methods.tcr.HeadStart`).
    """
    if config.method == "none":
        return []
    if config.method not in METHODS and not is_path(config.method):
        raise ValueError(
            f"`pretrain.method` must be one of {', '.join(METHODS)}, none or the directory of an "
            f"encoder, got {config.method!r}"
        )
    if views.config.n_views < 2:
        raise ValueError(
            f"`n_views` must be >= 2 for pretrain={config.method!r}, got {views.config.n_views}; "
            "try n_views=2 or pretrain='none'"
        )
    total = steps_of(config, len(views))
    history: History = []
    if config.method in METHODS:
        seed = tools.generator.initial_seed()
        method = build_method(network, fit_to_data(config, len(views)), total, seed)
        history += train(method, views, config, total, tools)
        if total == 0 or isinstance(method, TotalCodingRate):
            return history
    else:
        load_backbone(network, config.method)
    # The method's optimiser and rate need not suit TCR on one small head.
    config = replace(config, optimizer="adam", lr=config.head_lr)
    head = HeadStart(network, config, config.head_steps)
    history += train(head, views, config, config.head_steps, tools)
    network.train()
    return history


def train(
    method: Stage1Method, views: ViewSampler, config: Stage1Config, total: int, tools: Tools
) -> History:
    """Train with one method for ``total`` steps; only TCR is checked for a falling rate."""
    synchronize(method)
    trained: Any = tools.fabric.setup_module(method)
    optimizer: Any = tools.fabric.setup_optimizers(make_optimizer(method.trainable(), config))
    batches = Batches(len(views), config.batch_size, tools.generator)
    renewals = {round(total * r / (views.config.refresh + 1)) for r in _renewals(views)}

    def renew(step: int) -> None:
        if step in renewals:
            views.refresh(method.representation(views.samples))

    def compute(step: int) -> Terms:
        terms: Terms = trained([share(x) for x in method.draw(views, next(batches))])
        return terms

    # TCR maximises the rate, so a falling rate means a bad step. With other methods the rate may
    # fall for a while: MoCo first moves all features away from its random queue.
    floor = RATE_FLOOR if isinstance(method, TotalCodingRate) else 0.0
    method.train()
    stage = Stage(
        compute,
        [optimizer],
        n_steps=total,
        guard=Guard(trained, [optimizer], method.stage, method.dim, config.eps_sq, floor=floor),
        lr_factor=lambda step: warmup_cosine(step, total, config.warmup),
        accumulate=config.accumulate,
        max_norm=config.max_norm,
        before_step=renew,
        after_step=method.after_step,
        parts={"generator": tools.generator, "views": views, "batches": batches},
        network=method.network,
        unit=views.unit,
    )
    history = descend(stage, tools)
    if history:
        _warn_of_collapse(history[-1], method, config)
    return history


def _warn_of_collapse(row: Mapping[str, Any], method: Stage1Method, config: Stage1Config) -> None:
    """Warn if the stage ended with features that all point in one direction."""
    least = math.log1p(method.dim / config.eps_sq)
    most = method.dim * math.log1p(1 / config.eps_sq)
    if row["R"] - least < _COLLAPSED * (most - least):
        warnings.warn(
            f"{row['stage']}: the features of {config.method!r} ended collapsed (R = "
            f"{row['R']:.1f}, rank {row['rank']}); try a smaller 'pretrain.lr' or more epochs",
            CollapseWarning,
            stacklevel=4,
        )


def _renewals(views: ViewSampler) -> range:
    """Indices of the neighbour searches within the stage; empty without neighbours."""
    times = views.config.refresh
    return range(1, times + 1) if times and views.neighbors.shape[1] else range(0)


def make_optimizer(params: list[torch.nn.Parameter], config: Stage1Config) -> Optimizer:
    """The optimiser of stage 1."""
    rate, decay, fused = config.lr, config.weight_decay, fused_for(params)
    if config.optimizer == "lars":
        return LARS(params, rate, momentum=config.momentum, weight_decay=decay)
    if config.optimizer == "adam":
        return AdamW(params, rate, (config.momentum, 0.999), weight_decay=decay, fused=fused)
    if config.optimizer == "sgd":
        return SGD(params, rate, momentum=config.momentum, weight_decay=decay, fused=fused)
    raise ValueError(f"`pretrain.optimizer` must be lars, adam or sgd, got {config.optimizer!r}")
