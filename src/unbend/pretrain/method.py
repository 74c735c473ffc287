"""The interface of self-supervised methods, and the parts that several of them share."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from itertools import combinations
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from unbend.functional import coding_rate
from unbend.functional.checks import at_least_float32, check_tensor, working_dtype
from unbend.knobs import Stage1Config
from unbend.networks import Network
from unbend.samples import ViewSampler
from unbend.training import Terms

__all__ = [
    "Follower",
    "Stage1Method",
    "Projected",
    "PublishedTraining",
    "embed_all",
    "mlp",
    "pairs",
    "same_shape",
]


class PublishedTraining(NamedTuple):
    """How the authors trained: optimiser, rate at batch size 256, and the power it scales by."""

    optimizer: str
    lr: float
    weight_decay: float
    power: float = 1.0
    warmup: float = 0.01  # fraction of the steps: 10 of 1000 epochs

    def rate(self, batch_size: int) -> float:
        """Learning rate at another batch size."""
        return float(self.lr * (batch_size / 256) ** self.power)


class Stage1Method(nn.Module):
    """A loss over the views of a batch, with the state it needs from step to step.

    All state of a method (projector, momentum encoder, queue, prototypes) is in its
    ``state_dict``, together with the network it trains, so a checkpoint of the method is enough
    to resume from.

    Parameters
    ----------
    network : Network
        Trained in place.
    config : Stage1Config
        The settings of stage 1.
    total_steps : int
        Length of the stage, for schedules inside a method.

    Attributes
    ----------
    name : str
        The name of the method, equal to the name of its file.
    Settings : frozen dataclass, optional
        Settings of this method alone, with the published defaults: ``pretrain.NAME.KNOB``.
    published : PublishedTraining, optional
        How the authors trained it, for the preset "paper"; without it the preset decides.
    short : instance of Settings, optional
        Settings for the short runs of the presets for small data: momentum encoders must follow
        faster than over a thousand epochs, and projectors and prototypes are scaled down with the
        network and the batch.

    Notes
    -----
    With several processes ``forward`` gets this process's share of the views and collects the
    features with :func:`~unbend.training.gather`: every loss is over the global batch.
    """

    stage = "stage 1"
    name: ClassVar[str]
    Settings: ClassVar[type[Any] | None] = None
    published: ClassVar[PublishedTraining | None] = None
    short: ClassVar[Any] = None
    settings: Any  # of class Settings

    def __init__(self, network: Network, config: Stage1Config, total_steps: int) -> None:
        super().__init__()
        self.network = network
        self.config, self.settings = config, self.settings_in(config)
        self.total_steps = total_steps

    @classmethod
    def settings_in(cls, config: Stage1Config) -> Any:
        """The settings of this method alone."""
        return None if cls.Settings is None else getattr(config, cls.name)

    @classmethod
    def for_samples(cls, settings: Any, n: int) -> Any:
        """Adapt its settings to the number of samples."""
        return settings

    @property
    def dim(self) -> int:
        """Width of the features that ``forward`` reports."""
        raise NotImplementedError

    def forward(self, views: Sequence[Tensor]) -> Terms:
        """Loss of one batch, given A views (b, ...) of its samples."""
        raise NotImplementedError

    def draw(self, views: ViewSampler, index: Tensor) -> list[Tensor]:
        """Draw the views that this method needs of the samples at ``index``."""
        return list(views(index))

    def after_step(self, step: int) -> None:
        """Called after the update of step ``step``; most methods do nothing."""

    def trainable(self) -> list[nn.Parameter]:
        """The parameters that the optimiser updates."""
        return [p for p in self.parameters() if p.requires_grad]

    def representation(self, samples: Tensor) -> Tensor:
        """Features of samples (n, ...) in which to search for neighbours."""
        return normalize(embed_all(self.network, samples), dim=1)

    def normalized(self, x: Tensor) -> Tensor:
        """Samples normalised for the backbone."""
        return self.network.normalized(x)

    def terms(self, loss: Tensor, Z: Tensor) -> Terms:
        """Loss together with the coding rate of features Z, which reveals collapse."""
        Z = normalize(at_least_float32(Z.detach()), dim=1)
        return Terms(loss, coding_rate(Z, self.config.eps_sq), None, Z)


class Projected(Stage1Method):
    """A method with its own projector on the backbone; the heads of the network are not trained.

    The projector, from h to the space of the loss, has ``settings.hidden`` times the width of h in
    each of its ``depth`` hidden layers and ``settings.dim`` outputs (0: as many as hidden units).
    """

    depth: ClassVar[int] = 1
    norm: ClassVar[bool] = True  # batch normalisation in the projector

    def __init__(self, network: Network, config: Stage1Config, total_steps: int) -> None:
        super().__init__(network, config, total_steps)
        width = int(network.backbone.out_features)  # type: ignore[arg-type]
        self.hidden = max(8, round(self.settings.hidden * width))
        self.projector = mlp(
            width, self.hidden, self.settings.dim or self.hidden, self.depth, self.norm
        )

    @property
    def dim(self) -> int:
        return int(self.projector[-1].out_features)  # type: ignore[arg-type]

    def project(self, x: Tensor) -> Tensor:
        """Map samples (b, ...) of this process to features (b, dim) in full precision."""
        out: Tensor = self.projector(self.network.embed(x))
        return at_least_float32(out)

    def trainable(self) -> list[nn.Parameter]:
        heads = {*self.network.feature_head.parameters(), *self.network.cluster_head.parameters()}
        return [p for p in super().trainable() if p not in heads]


class Follower(nn.Module):
    """A momentum copy of modules: after each step, target ← m · target + (1 - m) · source.

    Only parameters follow; batch normalisation keeps its own statistics, as published. It
    receives no gradient.
    """

    def __init__(self, *sources: nn.Module) -> None:
        super().__init__()
        self.chain = nn.Sequential(*(copy.deepcopy(s) for s in sources))
        self.requires_grad_(False)

    @torch.no_grad()
    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.chain(x)
        return at_least_float32(out)

    @torch.no_grad()
    def follow(self, momentum: float, *sources: nn.Module) -> None:
        """Move one step towards the sources."""
        own: list[Tensor] = list(self.chain.parameters())
        theirs: list[Tensor] = [p for s in sources for p in s.parameters()]
        torch._foreach_lerp_(own, theirs, 1 - momentum)


def mlp(n_in: int, hidden: int, n_out: int, depth: int = 1, norm: bool = True) -> nn.Sequential:
    """``depth`` hidden layers, with batch normalisation by default, and a linear output layer."""
    layers: list[nn.Module] = []
    for _ in range(depth):
        layers.append(nn.Linear(n_in, hidden, bias=not norm))
        if norm:
            layers.append(nn.BatchNorm1d(hidden))
        layers.append(nn.ReLU(inplace=True))
        n_in = hidden
    return nn.Sequential(*layers, nn.Linear(n_in, n_out))


@torch.inference_mode()
def embed_all(network: Network, samples: Tensor, batch_size: int = 1024) -> Tensor:
    """The backbone's output h (n, w) for many samples, in evaluation mode and in batches."""
    network = copy.deepcopy(network).eval()
    parts = [network.embed(x.to(network.mean)) for x in torch.split(samples, batch_size)]
    return torch.cat(parts)


def pairs(n: int) -> list[tuple[int, int]]:
    """All pairs of views; methods defined for two views average over these."""
    return list(combinations(range(n), 2))


def same_shape(Z: Tensor, Z_other: Tensor, owner: str) -> tuple[Tensor, Tensor]:
    """Two views in full precision; raise in the name of ``owner`` if their shapes differ."""
    check_tensor(Z, "Z", owner, "n, d")
    if Z.shape != Z_other.shape:
        raise ValueError(
            f"both views of {owner} must have the same shape, got {tuple(Z.shape)} and "
            f"{tuple(Z_other.shape)}"
        )
    dtype = working_dtype(Z, Z_other)
    return Z.to(dtype), Z_other.to(dtype)
