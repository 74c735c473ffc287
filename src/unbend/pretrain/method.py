"""What every self-supervised method is to the trainer, and the parts that several share."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from itertools import combinations

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from unbend.config import PretrainConfig
from unbend.data import ViewSampler
from unbend.functional import coding_rate
from unbend.networks import Network
from unbend.training import Terms

__all__ = [
    "Follower",
    "Method",
    "Projected",
    "embed_all",
    "hidden_width",
    "mlp",
    "pairs",
    "width_of",
]


class Method(nn.Module):
    """A loss over the views of a batch, with all it needs from step to step.

    Everything a method keeps (projector, momentum encoder, queue, prototypes) is in its
    ``state_dict``, beside the network it trains, so that a checkpoint of the method is all there
    is to resume from.

    Parameters
    ----------
    network : Network
        Trained in place.
    config : PretrainConfig
        Which knobs.
    total_steps : int
        Length of the stage, for schedules inside a method.

    Notes
    -----
    With several processes ``forward`` gets this process's share of the views and brings the
    features together with :func:`~unbend.training.gather`: every loss is over the global batch.
    """

    stage = "stage 1"

    def __init__(self, network: Network, config: PretrainConfig, total_steps: int) -> None:
        super().__init__()
        self.network = network
        self.config = config
        self.total_steps = total_steps

    @property
    def dim(self) -> int:
        """Width of the features that ``forward`` reports."""
        raise NotImplementedError

    def forward(self, views: Sequence[Tensor]) -> Terms:
        """Loss of one batch, given A views (b, ...) of its samples."""
        raise NotImplementedError

    def draw(self, views: ViewSampler, index: Tensor) -> list[Tensor]:
        """The views this method wants of the samples at ``index``."""
        return list(views(index))

    def after_step(self, step: int) -> None:
        """What happens after the update of step ``step``; nothing for most methods."""

    def trainable(self) -> list[nn.Parameter]:
        """The parameters that the optimiser moves."""
        return [p for p in self.parameters() if p.requires_grad]

    def representation(self, samples: Tensor) -> Tensor:
        """What this method has learned about samples (n, ...), to look neighbours up in."""
        return normalize(embed_all(self.network, samples), dim=1)

    def normalized(self, x: Tensor) -> Tensor:
        """Samples as the backbone wants them."""
        return (x - self.network.mean) / self.network.std

    def terms(self, loss: Tensor, Z: Tensor) -> Terms:
        """Loss beside the coding rate of features Z, by which collapse is noticed."""
        Z = normalize(Z.detach().float(), dim=1)
        return Terms(loss, coding_rate(Z, self.config.eps_sq), None, Z)


class Projected(Method):
    """A method with a projector of its own on the backbone; both heads of the network rest.

    Parameters
    ----------
    projector : Module
        From h to the space of the loss.
    """

    def __init__(
        self, network: Network, config: PretrainConfig, total_steps: int, projector: nn.Sequential
    ) -> None:
        super().__init__(network, config, total_steps)
        self.projector = projector

    @property
    def dim(self) -> int:
        return int(self.projector[-1].out_features)  # type: ignore[arg-type]

    def project(self, x: Tensor) -> Tensor:
        """From samples (b, ...) to features (b, dim) in full precision, of this process alone."""
        out: Tensor = self.projector(self.network.embed(x))
        return out.float() if out.dtype != torch.float64 else out

    def trainable(self) -> list[nn.Parameter]:
        heads = {*self.network.feature_head.parameters(), *self.network.cluster_head.parameters()}
        return [p for p in super().trainable() if p not in heads]


class Follower(nn.Module):
    """A momentum copy of modules: after each step, target ← m · target + (1 - m) · source.

    Only parameters follow; batch normalisation keeps its own statistics, as published. No
    gradient enters.
    """

    def __init__(self, *sources: nn.Module) -> None:
        super().__init__()
        self.chain = nn.Sequential(*(copy.deepcopy(s) for s in sources))
        self.requires_grad_(False)

    @torch.no_grad()
    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.chain(x)
        return out.float() if out.dtype != torch.float64 else out

    @torch.no_grad()
    def follow(self, momentum: float, *sources: nn.Module) -> None:
        """One step after the sources."""
        own: list[Tensor] = list(self.chain.parameters())
        theirs: list[Tensor] = [p for s in sources for p in s.parameters()]
        torch._foreach_lerp_(own, theirs, 1 - momentum)


def mlp(n_in: int, hidden: int, n_out: int, depth: int = 1, norm: bool = True) -> nn.Sequential:
    """``depth`` hidden layers, with batch normalisation unless told, and an affine end."""
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
    """The backbone's output h (n, w) of many samples, in evaluation mode, batch by batch."""
    network = copy.deepcopy(network).eval()
    parts = [network.embed(x.to(network.mean)) for x in torch.split(samples, batch_size)]
    return torch.cat(parts)


def width_of(network: Network) -> int:
    """Width of h."""
    return int(network.backbone.out_features)  # type: ignore[arg-type]


def hidden_width(network: Network, factor: float) -> int:
    """Hidden units of a projector that is ``factor`` times as wide as h."""
    return max(8, round(factor * width_of(network)))


def pairs(n: int) -> list[tuple[int, int]]:
    """All pairs of views; methods made for two views take their mean over these."""
    return list(combinations(range(n), 2))
