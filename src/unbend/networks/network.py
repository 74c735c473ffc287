"""The network of Fig. 2: one backbone, two heads."""

from __future__ import annotations

import copy
from typing import NamedTuple

import torch
from torch import Tensor, nn

from unbend.knobs import NetworkConfig
from unbend.networks.backbones import FixedMap, adopt_backbone, build_backbone
from unbend.networks.heads import Head

__all__ = ["Network", "Output", "build_network"]


class Output(NamedTuple):
    """Features Z and codes C of a batch, both (b, d) on the unit sphere."""

    Z: Tensor
    C: Tensor


class Network(nn.Module):
    """x → h → (z, c).

    The network normalises samples itself (per channel for images, centred per column for
    vectors), so a saved network needs nothing else to process a scaled sample.
    """

    mean: Tensor
    std: Tensor
    shape: tuple[int, ...] | None = None
    config: NetworkConfig | None = None

    def __init__(self, backbone: nn.Module, feature_head: Head, cluster_head: Head) -> None:
        super().__init__()
        self.backbone = backbone
        self.feature_head = feature_head
        self.cluster_head = cluster_head
        self.register_buffer("mean", torch.zeros(1))
        self.register_buffer("std", torch.ones(1))

    def normalize_like(self, samples: Tensor, per_column: bool = False) -> None:
        """Learn the input normalisation from the scaled training samples.

        Columns of vectors keep their proportions unless ``per_column`` is set, which suits tables
        whose columns have different units.
        """
        if samples.ndim == 4:
            self.mean = samples.mean((0, 2, 3))[:, None, None]
            std = samples.std((0, 2, 3))[:, None, None]
            self.std = torch.where(std > 1e-6, std, torch.ones_like(std))  # constant channels
        else:
            self.mean = samples.mean(0)
            self.std = torch.ones_like(self.mean)
            if per_column and len(samples) > 1:
                spread = samples.std(0)
                typical = spread.square().mean().sqrt()  # the rows keep their mean length
                varies = spread > 1e-6 * typical
                self.std = torch.where(varies, spread / typical, self.std)

    @property
    def fixed(self) -> FixedMap | None:
        """The first layer of a network whose config has ``whiten`` or ``project``."""
        first = next(self.backbone.children(), None)
        return first if isinstance(first, FixedMap) else None

    def set_basis(self, basis: Tensor) -> None:
        """Set the basis of the fixed first layer."""
        assert self.fixed is not None
        self.fixed.basis = basis.to(self.fixed.basis)

    @torch.no_grad()
    def reduce(self, samples: Tensor, batch_size: int = 8192) -> Tensor:
        """What the fixed first layer makes of samples; without one that has fewer columns, samples.

        Training does this once. The network takes the result in place of samples.
        """
        first = self.fixed
        if first is None or not first.reduces:
            return samples
        return torch.cat([first(self.normalized(x)) for x in torch.split(samples, batch_size)])

    def normalized(self, x: Tensor) -> Tensor:
        """Samples as the backbone takes them; what :meth:`reduce` made of them stays as it is."""
        first = self.fixed
        if first is not None and first.has_mapped(x):
            return x
        return (x - self.mean) / self.std

    def embed(self, x: Tensor) -> Tensor:
        """The backbone's output h (b, w)."""
        h: Tensor = self.backbone(self.normalized(x))
        return h

    def features(self, x: Tensor) -> Tensor:
        """Features Z (b, d)."""
        Z: Tensor = self.feature_head(self.embed(x))
        return Z

    def forward(self, x: Tensor) -> Output:
        h = self.embed(x)
        return Output(self.feature_head(h), self.cluster_head(h))

    def copy_feature_head(self) -> None:
        """Line 2 of Algorithm 1: the cluster head starts as a copy of the feature head."""
        self.cluster_head.load_state_dict(self.feature_head.state_dict())

    @torch.inference_mode()
    def encode(
        self, samples: Tensor, batch_size: int = 1024, dtype: torch.dtype | None = None
    ) -> Output:
        """Features and codes of many samples, in evaluation mode, batch by batch.

        Vectors are encoded in float64, which is cheap for them, so the result of a sample does not
        depend on the others in its batch. Images are encoded in the network's own precision. The
        result is then rounded to ``dtype``, if that is given.
        """
        network = copy.deepcopy(self).eval()
        if samples.ndim == 2 and self.mean.device.type != "mps":  # mps has no float64
            network = network.double()
        like = network.mean
        out: Output | None = None
        for start in range(0, max(1, len(samples)), batch_size):
            part = network(samples[start : start + batch_size].to(like))
            if out is None:  # filled in place: joined parts would take the memory twice
                out = Output(*(p.new_empty(len(samples), p.shape[1], dtype=dtype) for p in part))
            for whole, piece in zip(out, part, strict=True):
                whole[start : start + batch_size] = piece
        assert out is not None
        return out


def build_network(
    shape: tuple[int, ...], config: NetworkConfig, seed: int, backbone: nn.Module | None = None
) -> Network:
    """Build a network for samples of ``shape`` with weights drawn from ``seed`` alone.

    With ``backbone``, a copy of that module takes the place of the one named in ``config``, with
    the weights it has.
    """
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)  # not torch's: that reseeds the GPUs too
        if backbone is None:
            backbone = build_backbone(shape, config)
        else:
            backbone = adopt_backbone(shape, backbone)
        heads = [
            Head(
                int(backbone.out_features),  # type: ignore[arg-type]
                config.dim,
                config.head_width,
                config.head_depth,
                config.head_norm,
            )
            for _ in range(2)
        ]
    network = Network(backbone, *heads)
    network.shape, network.config = shape, config  # needed to save it as an encoder
    return network
