"""A backbone on its own: trained by stage 1 alone, and taken from disk."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import torch
from lightning_fabric import Fabric
from torch import Tensor

from unbend.config import Config
from unbend.data import ViewSampler
from unbend.networks import Network, build_network
from unbend.networks.encoders.own import read_own
from unbend.progress import Progress, silent
from unbend.training import Checkpoints, History, Record, Watch, agree, hash_of, synchronize

__all__ = ["Trained", "load_backbone", "train_encoder"]


class Trained(NamedTuple):
    """A network after stage 1 and a row per step."""

    network: Network
    history: History


def train_encoder(
    samples: Tensor,
    config: Config,
    *,
    seed: int,
    fabric: Fabric,
    progress: Progress = silent,
    checkpoints: Checkpoints | None = None,
    watch: Callable[[Network], Mapping[str, float]] | None = None,
    watch_every: int = 50,
) -> Trained:
    """Stage 1 alone on scaled samples (n, p) or (n, c, h, w).

    Everything random comes from ``seed``. With ``checkpoints`` the run goes on from the newest
    one; on the CPU it then ends bit-equal to one that was never interrupted. ``watch(network)``
    looks on every few steps and returns numbers to show; training never sees them.
    """
    from unbend.pretrain.stage import pretrain

    seed = int(agree(seed)[0]) if seed < 2**53 else seed
    generator = torch.Generator().manual_seed(seed)
    samples = samples.to(fabric.device)
    network = build_network(tuple(samples.shape[1:]), config.network, seed)
    network.normalize_like(samples)
    synchronize(network)
    network = network.to(fabric.device)
    if samples.ndim == 4:
        # Convolutions take a quarter less time.
        network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    identity = {
        "config": {key: config.to_dict()[key] for key in ("views", "network", "pretrain")},
        "seed": seed,
        "precision": str(getattr(fabric._precision, "precision", "")),
        "samples": hash_of(samples) if checkpoints is not None else "",
    }
    history = pretrain(
        network,
        ViewSampler(samples, config.views, generator),
        config.pretrain,
        generator=generator,
        fabric=fabric,
        progress=progress,
        record=Record(checkpoints, identity),
        watch=watch and Watch(lambda stage, step: watch(network), watch_every),
    )
    # As a saved and loaded network computes.
    network.to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]
    return Trained(network.cpu().eval(), history)


def load_backbone(network: Network, path: str | Path) -> None:
    """Put the backbone of a saved encoder or model into a network, every tensor of it.

    Its normalisation of pixels comes along, for images in [0, 1]. What does not fit is an error
    that says what the encoder was made for.
    """
    saved = read_own(path)
    own = network.backbone.state_dict()
    wrong = sorted(
        {*own, *saved.tensors}
        - {k for k in own if k in saved.tensors and own[k].shape == saved.tensors[k].shape}
    )
    if wrong:
        raise ValueError(
            f"the encoder in {str(path)!r} is a {saved.config.backbone!r} of width "
            f"{saved.config.width} for samples of shape {tuple(saved.shape)} and does not fit this "
            f"network ({wrong[0]!r} differs); take images of that size and backbone="
            f"{saved.config.backbone!r}"
        )
    network.backbone.load_state_dict(saved.tensors)
    if saved.mean:
        like = network.mean
        network.mean = torch.tensor(saved.mean).to(like)[:, None, None]
        network.std = torch.tensor(saved.std).to(like)[:, None, None]
