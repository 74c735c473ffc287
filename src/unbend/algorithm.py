"""Algorithm 1 of the paper on one page: from samples to a linear representation and labels.

The comments number the paper's lines. Equations: (4) is the MLC objective, (5) the total coding
rate of stage 1, (6) how views are joined.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from lightning_fabric import Fabric
from torch import Tensor
from torch.nn.functional import normalize
from torch.optim import SGD

from unbend.config import Config, Stage2Config
from unbend.data import Batches, ViewSampler
from unbend.functional import doubly_stochastic, rate_reduction
from unbend.labels import LabelModel, label_codes
from unbend.networks import Network, build_network
from unbend.pretrain import pretrain
from unbend.progress import Progress, silent
from unbend.training import (
    Checkpoints,
    Guard,
    History,
    Record,
    Terms,
    Watch,
    agree,
    descend,
    fused_for,
    gather,
    hash_of,
    n_steps,
    share,
    synchronize,
)

__all__ = ["Solution", "Watching", "linearize", "solve"]

STAGE_2 = "stage 2"


class Watching(NamedTuple):
    """``call(stage, step, network)`` every so many steps, for scores that training never sees.

    What it returns is shown with the progress. The network is to be looked at only, as by
    :meth:`~unbend.networks.Network.encode`.
    """

    call: Callable[[str, int, Network], Mapping[str, float] | None]
    every: int = 50


@dataclass(frozen=True)
class Solution:
    """What Algorithm 1 returns: the trained network, Z and C of all samples, labels, history."""

    network: Network
    Z: Tensor
    C: Tensor
    labels: LabelModel
    history: History


def solve(
    samples: Tensor,
    n_clusters: int | str,
    config: Config,
    *,
    seed: int,
    fabric: Fabric,
    progress: Progress = silent,
    label_method: str = "auto",
    max_clusters: int | None = None,
    observe: Callable[[int, Network], None] | None = None,
    checkpoints: Checkpoints | None = None,
    watch: Watching | None = None,
    make_views: Callable[..., ViewSampler] = ViewSampler,
    generator: torch.Generator | None = None,
    start: Network | None = None,
) -> Solution:
    """Run Algorithm 1 on scaled samples (n, p) or (n, c, h, w).

    Everything random comes from ``seed``; the global random state is not touched.
    ``observe(stage, network)`` is called at the end of stage 0 (random), 1 and 2, where this
    call gets there. With ``checkpoints`` the run goes on from the newest one and is kept there;
    on the CPU it then ends bit-equal to one that was never interrupted. ``watch`` looks on every
    few steps. ``make_views`` makes the views where they are not made of the samples alone.
    From a copy of ``start``, a network that stage 1 has trained, the run begins at line 2; with
    the ``generator`` that trained it, it ends as the run that was never split.
    """
    if start is not None and checkpoints is not None:
        raise ValueError("solve takes checkpoints or a start, not both; leave one of them out")
    observe = observe or (lambda stage, network: None)
    seed = int(agree(seed)[0]) if seed < 2**53 else seed
    generator = generator or torch.Generator().manual_seed(seed)
    samples = samples.to(fabric.device)
    network = _untrained(samples, config, seed) if start is None else copy.deepcopy(start)
    synchronize(network)
    if samples.ndim == 4:
        # Convolutions take a quarter less time.
        network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    record = _record(checkpoints, config, seed, samples, fabric)
    trained: Any = fabric.setup_module(network)
    trained.mark_forward_method("features")
    views = make_views(samples, config.views, generator, progress)
    tools: dict[str, Any] = {
        "generator": generator,
        "fabric": fabric,
        "progress": progress,
        "record": record,
        "watch": watch and Watch(lambda stage, step: watch.call(stage, step, network), watch.every),
    }

    history: History = []
    if start is None:
        observe(0, network)
        history += pretrain(trained, views, config.pretrain, **tools)  # line 1
    if not record.reached(STAGE_2):
        network.copy_feature_head()  # line 2
        observe(1, network)
        if config.views.refresh and views.neighbors.shape[1]:
            views.refresh(network.encode(samples).Z)
    # Labels may need the features that stage 2 began with.
    before = copy.deepcopy(network) if config.stage2.join == "stage1" else None
    history += linearize(trained, views, config.stage2, before=before, **tools)  # lines 3-9
    # As a saved and loaded network computes.
    network.to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]
    observe(2, network)
    Z, C = (t.float().cpu() for t in network.encode(samples))
    join = "none" if n_clusters == "auto" else config.stage2.join  # "auto" counts all blocks
    labels = label_codes(  # line 10
        C,
        Z,
        n_clusters,
        eta=config.stage2.eta,
        eps_sq=config.stage2.eps_sq,
        method=label_method,
        max_clusters=max_clusters,
        seed=seed,
        join=join,
        before=before.encode(samples).Z.float().cpu() if before and join == "stage1" else None,
        progress=progress,
    )
    return Solution(network.cpu().eval(), Z, C, labels, history)


def _untrained(samples: Tensor, config: Config, seed: int) -> Network:
    network = build_network(tuple(samples.shape[1:]), config.network, seed)
    network.normalize_like(samples)
    return network


def _record(
    checkpoints: Checkpoints | None, config: Config, seed: int, samples: Tensor, fabric: Fabric
) -> Record:
    """Where the run is kept; what makes it this run is written there."""
    if checkpoints is None:
        return Record()
    identity = {
        "config": config.to_dict(),
        "seed": seed,
        "precision": str(getattr(fabric._precision, "precision", "")),
        "samples": hash_of(samples),
    }
    return Record(checkpoints, identity)


def linearize(
    network: Network,
    views: ViewSampler,
    config: Stage2Config,
    *,
    generator: torch.Generator,
    fabric: Fabric,
    progress: Progress,
    before: Network | None = None,
    record: Record | None = None,
    watch: Watch | None = None,
) -> History:
    """Lines 3-9: maximise R(Z) - R_c(Z, Γ) over both heads.

    ``before`` is a copy of the network for later, which a run that goes on gets back.
    """
    network.train()
    network.backbone.requires_grad_(config.train_backbone)
    network.backbone.train(config.train_backbone)
    batches = Batches(len(views), config.batch_size, generator)

    def compute(step: int) -> Terms:
        batch = next(batches)  # line 4
        X = views(batch)  # line 5
        Z, Gamma = forward(network, X, config)  # line 6
        rates = rate_reduction(  # Eq. (4)
            Z, Gamma, config.eps_sq, n_anchors=config.n_anchors or None, generator=generator
        )
        return Terms(-rates.delta, rates.R, rates.R_c, Z)

    total = n_steps(
        len(views), config.batch_size, config.epochs, config.min_steps, config.max_steps
    )
    optimizers: list[Any] = [fabric.setup_optimizers(o) for o in _optimizers(network, config)]
    return descend(  # lines 7-8
        compute,
        optimizers,
        n_steps=total,
        lr_factor=lambda step: 1.0,
        guard=Guard(network, optimizers, STAGE_2, network.feature_head.dim, config.eps_sq),
        fabric=fabric,
        progress=progress,
        accumulate=config.accumulate,
        max_norm=config.max_norm,
        watch=watch,
        parts={
            "generator": generator,
            "views": views,
            "batches": batches,
            **({} if before is None else {"before": before}),
        },
        record=record,
        unit=views.unit,
    )


def forward(network: Network, X: Tensor, config: Stage2Config) -> tuple[Tensor, Tensor]:
    """Eq. (6): Z is the unit-norm mean of the views' features, Γ the mean of their memberships."""
    outputs = [network(share(x)) for x in X]
    Z = normalize(torch.stack([gather(out.Z.float()) for out in outputs]).mean(0), dim=1)
    C = torch.stack([gather(out.C.float()) for out in outputs])
    Gamma = doubly_stochastic(C @ C.mT, config.eta, tol=config.tol).Gamma.mean(0)
    return Z, Gamma


def _optimizers(network: Network, config: Stage2Config) -> list[SGD]:
    """One optimiser per head; a trainable backbone belongs to the feature head's."""
    feature = list(network.feature_head.parameters())
    if config.train_backbone:
        feature += list(network.backbone.parameters())
    options: dict[str, Any] = {"momentum": config.momentum, "weight_decay": config.weight_decay}
    return [
        SGD(params, config.lr, **options, fused=fused_for(params))
        for params in (feature, list(network.cluster_head.parameters()))
    ]
