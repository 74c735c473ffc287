"""The methods by name."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import torch

from unbend.config import PretrainConfig
from unbend.networks import Network
from unbend.pretrain.byol import BYOL
from unbend.pretrain.method import Method
from unbend.pretrain.moco import MoCo
from unbend.pretrain.simclr import SimCLR
from unbend.pretrain.swav import SwAV
from unbend.pretrain.tcr import TotalCodingRate
from unbend.pretrain.vicreg import VICReg

__all__ = ["METHODS", "build_method", "fit_to_data", "is_path"]

METHODS: dict[str, type[Method]] = {
    "tcr": TotalCodingRate,
    "simclr": SimCLR,
    "moco": MoCo,
    "vicreg": VICReg,
    "byol": BYOL,
    "swav": SwAV,
}


def build_method(network: Network, config: PretrainConfig, total_steps: int, seed: int) -> Method:
    """Build the method named in ``config``; what it draws at random comes from ``seed`` alone."""
    if config.method not in METHODS:
        raise ValueError(
            f"`pretrain.method` must be one of {', '.join(METHODS)}, none, got {config.method!r}"
        )
    device = network.mean.device
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)  # not torch's: that reseeds the GPUs too
        method = METHODS[config.method](network, config, total_steps)
    return method.to(device=device, dtype=next(network.parameters()).dtype)


def is_path(method: str) -> bool:
    """Whether ``method`` names a directory rather than a method."""
    return method not in METHODS and Path(method).expanduser().is_dir()


def fit_to_data(config: PretrainConfig, n: int) -> PretrainConfig:
    """Settings that cannot be larger than the data.

    A queue longer than the data set would hold older keys of the very samples it is compared
    with, as wrong answers: it is cut to half of the samples.
    """
    queue = max(1, min(config.moco.queue, n // 2))
    return replace(config, moco=replace(config.moco, queue=queue))
