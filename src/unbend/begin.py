"""Set up training: build the network, views and tools from samples and a config."""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, nn

from unbend.config import Config, costs
from unbend.disk import hash_array
from unbend.disk.tensors import hash_tensors
from unbend.knobs import RIDGE
from unbend.networks import Network, build_network
from unbend.progress import Callback, Progress, silent
from unbend.samples import (
    NeighborChoice,
    Scaling,
    ViewSampler,
    choose_metric,
    near_parts,
    pixel_side,
    principal_basis,
    whitening_basis,
)
from unbend.training import Checkpoints, Record, Tools, agree, synchronize

if TYPE_CHECKING:
    from lightning_fabric import Fabric

__all__ = ["Run", "Seen", "begin", "look_at"]

_STAGE1 = ("views", "network", "pretrain")
_FEWEST = 4  # samples whose neighbours can be judged
# Of the cut that the best plain metric leaves: with less, images become vectors. Stricter than the
# lead that ridge neighbours need among vectors, because images that are not aligned lose by it.
_RIDGE_LEAVES = 0.85
# Of the links between pixels to cut: with less, vectors of pixels stay vectors, which is as good
# and several times faster.
_CLEAR = 0.01
# Settings that were chosen for samples of one form, which they then keep.
_OF_ONE_FORM = ("views.", "network.backbone", "pretrain.method")


class Seen(NamedTuple):
    """Samples as the network will see them, and the choice of neighbours if it was made."""

    samples: Tensor
    scaling: Scaling
    neighbors: NeighborChoice | None = None


def look_at(
    samples: Tensor,
    scaling: Scaling,
    n_clusters: int | str,
    *,
    preset: str = "auto",
    asked: Collection[str] = (),
    progress: Progress = silent,
) -> Seen:
    """Decide whether the network sees images, or vectors of their pixels.

    Where ridge neighbours separate the groups clearly better than any others, images of a group lie
    near a linear subspace of pixels, as aligned faces under changing light do. Where near
    neighbours alone take the groups apart, they lie on thin manifolds, as pictures of a turning
    object do. Augmentation moves pixels and would destroy both, so such images become vectors.
    Vectors that are recognised as the pixels of images become images, unless they lie so too, or
    their graph is clear already. The preset "vectors" always makes vectors. If one of the settings
    ``asked`` for concerns views, backbone or method of stage 1, samples stay what they are.
    """
    same = Seen(samples, scaling)
    if preset not in ("auto", "vectors") or any(name.startswith(_OF_ONE_FORM) for name in asked):
        return same
    if preset == "vectors":
        return Seen(*scaling.as_vectors(samples)) if scaling.is_image else same
    side = None if scaling.is_image else pixel_side(samples)
    if len(samples) < _FEWEST or (not scaling.is_image and side is None):
        return same
    choice = choose_metric(samples, n_clusters, progress=progress)
    seen = samples, scaling
    if choice.parts or choice.ridge_leaves <= _RIDGE_LEAVES:  # pixels show the groups as they are
        seen = scaling.as_vectors(samples) if scaling.is_image else seen
    elif side is not None and choice.cut > _CLEAR:
        seen = scaling.as_images(samples, side)
    return Seen(*seen, choice)


@dataclass(frozen=True)
class Run:
    """The state of a training run that its stages share.

    ``network`` is trained in place; ``trained`` is the same network in Fabric's wrapper.
    ``started`` is True if stage 1 is already done.
    """

    samples: Tensor
    config: Config
    seed: int
    network: Network
    trained: Any
    views: ViewSampler
    tools: Tools
    started: bool
    neighbors: NeighborChoice

    def refresh_views(self) -> None:
        """Search neighbours again in the features of stage 1, if the config asks for it."""
        if self.config.views.refresh and self.views.neighbors.shape[1]:
            self.views.refresh(self.network.encode(self.samples).Z)

    def end(self) -> Network:
        """The network in contiguous memory format, so that it computes like a loaded one."""
        return self.network.to(memory_format=torch.contiguous_format)  # type: ignore[call-overload, no-any-return]


def begin(
    samples: Tensor,
    config: Config,
    *,
    seed: int,
    fabric: Fabric,
    n_clusters: int | str = "auto",
    progress: Progress = silent,
    checkpoints: Checkpoints | None = None,
    callbacks: Sequence[Callback] = (),
    make_views: Callable[..., ViewSampler] = ViewSampler,
    backbone: nn.Module | None = None,
    start: Network | None = None,
    generator: torch.Generator | None = None,
    stage1_only: bool = False,
    neighbors: NeighborChoice | None = None,
) -> Run:
    """Build and normalise the network, place it on the device, make the views.

    Everything random comes from ``seed``; the global random state is not touched.

    Parameters
    ----------
    samples : Tensor of shape (n, p) or (n, c, h, w)
        Scaled samples.
    config : Config
        From :func:`unbend.config.resolve`.
    seed : int
        Seed of weights, batches and views.
    fabric : Fabric
        Device and precision.
    n_clusters : int or "auto"
        k, for the choice of the neighbours' metric where the config leaves it open.
    progress, callbacks
        Observers of the training, see :mod:`unbend.progress`.
    checkpoints : Checkpoints, optional
        Resume from the newest checkpoint and save new ones here. On the CPU the result is
        bit-equal to that of an uninterrupted run.
    make_views : callable
        Creates the view sampler, for views that need more than the samples.
    backbone : Module, optional
        Replaces the backbone named in the config; a copy is trained.
    start : Network, optional
        A network after stage 1; a copy is trained further.
    generator : torch.Generator, optional
        The generator that trained ``start``; the result then equals that of an unsplit run.
    stage1_only : bool
        Whether checkpoints ignore the settings of later stages.
    neighbors : NeighborChoice, optional
        The choice of :func:`look_at`, for a metric that the config leaves open.
    """
    if start is not None and checkpoints is not None:
        raise ValueError("a run takes `checkpoints` or `start`, not both; omit one of them")
    seed = int(agree(seed)[0]) if seed < 2**53 else seed
    generator = generator or torch.Generator().manual_seed(seed)
    samples = samples.to(fabric.device)
    choice = _choose_neighbors(samples, config, n_clusters, neighbors, progress)
    config = config.override({"views.metric": choice.metric, "views.parts": choice.parts})
    network = copy.deepcopy(start)
    if network is None:
        config, basis = _choose_basis(samples, config, backbone)
        network = build_network(tuple(samples.shape[1:]), config.network, seed, backbone)
        network.normalize_like(samples, per_column=choice.metric == "standardized")
        if basis is not None:
            network.set_basis(basis)
    elif network.config is not None:
        kept = {f"network.{name}": getattr(network.config, name) for name in ("whiten", "project")}
        config = config.override(kept)
    synchronize(network)
    network.to(fabric.device)
    if samples.ndim == 4:
        # This makes convolutions a quarter faster.
        network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    record = Record()
    if checkpoints is not None:
        tree = config.to_dict()
        identity = {
            "config": {k: tree[k] for k in _STAGE1} if stage1_only else tree,
            "seed": seed,
            "precision": str(getattr(fabric._precision, "precision", "")),
            "samples": hash_array(samples),
        }
        if backbone is not None:
            identity["backbone"] = hash_tensors(backbone.state_dict())
        record = Record(checkpoints, identity)
    trained: Any = fabric.setup_module(network)
    trained.mark_forward_method("features")
    views = make_views(samples, config.views, generator, progress)
    views.map_once(network.reduce)
    threads = costs(config, tuple(samples.shape[1:]), len(samples)).threads
    tools = Tools(fabric, generator, progress, record, tuple(callbacks), threads)
    return Run(samples, config, seed, network, trained, views, tools, start is not None, choice)


def _choose_basis(
    samples: Tensor, config: Config, backbone: nn.Module | None
) -> tuple[Config, Tensor | None]:
    """Whiten vectors with ridge neighbours, project other wide ones; the basis of either."""
    basis, wanted = None, config.network.project
    found = {"network.whiten": 0, "network.project": 0 if wanted == "auto" else wanted}
    if samples.ndim == 2 and backbone is None:
        if config.views.metric.startswith(RIDGE):
            basis = whitening_basis(samples, config.views.metric)
            found = {"network.whiten": basis.shape[1], "network.project": 0}
        elif wanted:
            most = max(config.network.width, config.network.dim)
            alike = config.views.metric == "standardized"  # as the network will see them
            basis = principal_basis(samples, most, wanted, standardize=alike)
            found["network.project"] = 0 if basis is None else basis.shape[1]
    return config.override(found), basis


def _choose_neighbors(
    samples: Tensor,
    config: Config,
    n_clusters: int | str,
    found: NeighborChoice | None,
    progress: Progress,
) -> NeighborChoice:
    """The configured metric, or one chosen from the data; it does not depend on the seed."""
    metric, parts = config.views.metric, config.views.parts
    if config.views.n_neighbors == 0 or len(samples) < _FEWEST:
        return NeighborChoice("euclidean" if metric == "auto" else metric, {})
    if metric == "auto":
        return found or choose_metric(samples, n_clusters, parts=parts, progress=progress)
    return NeighborChoice(metric, {}, parts=near_parts(samples, metric, n_clusters, parts))
