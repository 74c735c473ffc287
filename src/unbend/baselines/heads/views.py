"""The inputs of the heads: embeddings, or the features of augmented images."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn

from unbend.config import PRESETS, Augmentation, NetworkConfig, preset_for
from unbend.networks import build_backbone
from unbend.samples import augment

__all__ = ["ImageViews", "Trunk", "VectorViews", "Views"]


class Trunk(nn.Module):
    """From scaled samples to features h: centring alone for vectors, a backbone for images."""

    mean: Tensor
    std: Tensor

    def __init__(self, shape: tuple[int, ...], config: NetworkConfig | None = None) -> None:
        super().__init__()
        self.config = config
        channels = (shape[0], 1, 1) if config else shape
        self.register_buffer("mean", torch.zeros(channels))
        self.register_buffer("std", torch.ones(channels))
        self.backbone = build_backbone(shape, config) if config else nn.Identity()
        self.out_features = int(self.backbone.out_features) if config else shape[0]  # type: ignore

    def forward(self, x: Tensor) -> Tensor:
        h: Tensor = self.backbone((x - self.mean) / self.std)
        return h


class Views:
    """Base: features of the unchanged samples; a subclass defines how they vary."""

    def __init__(self, trunk: Trunk, samples: Tensor, generator: torch.Generator) -> None:
        self.trunk, self.samples, self.generator = trunk, samples, generator

    def __len__(self) -> int:
        return len(self.samples)

    @torch.no_grad()
    def features(self, index: Tensor | None = None, batch_size: int = 1024) -> Tensor:
        """Features h of the samples at ``index``, or of all, not augmented and without gradient."""
        chosen = self.samples if index is None else self.samples[index.to(self.samples.device)]
        training = self.trunk.training
        self.trunk.eval()
        h = torch.cat([self.trunk(x) for x in torch.split(chosen, batch_size)])
        self.trunk.train(training)
        return h

    def seen(self, index: Tensor) -> Tensor:
        """Features of the samples at ``index`` as clustering sees them, with gradient."""
        raise NotImplementedError

    def weak(self, index: Tensor) -> Tensor:
        """Features of weakly augmented samples."""
        raise NotImplementedError

    def strong(self, index: Tensor) -> Tensor:
        """Features of strongly augmented samples."""
        raise NotImplementedError


class VectorViews(Views):
    """Embeddings, used unchanged.

    Embeddings cannot be augmented. If a method needs a strong view, it gets a point between the
    sample and a near neighbour, at most half way.
    """

    def __init__(self, trunk: Trunk, samples: Tensor, generator: torch.Generator) -> None:
        super().__init__(trunk, samples, generator)
        self.h = self.features()
        self.neighbors: Tensor | None = None  # must be set before strong views are drawn

    def seen(self, index: Tensor) -> Tensor:
        return self.h[index.to(self.h.device)]

    weak = seen

    def strong(self, index: Tensor) -> Tensor:
        if self.neighbors is None:
            raise RuntimeError("VectorViews.strong needs `neighbors`; set it before training")
        pick = torch.randint(self.neighbors.shape[1], index.shape, generator=self.generator)
        share = torch.rand(len(index), 1, generator=self.generator).to(self.h) / 2
        index = index.to(self.h.device)
        other = self.neighbors[index, pick.to(self.h.device)]
        return torch.lerp(self.h[index], self.h[other], share)


class ImageViews(Views):
    """Images, augmented as in the preset for their size and passed through the backbone."""

    def __init__(self, trunk: Trunk, samples: Tensor, generator: torch.Generator) -> None:
        super().__init__(trunk, samples, generator)
        self.policy = PRESETS[preset_for(tuple(samples.shape[1:]))].views.augmentation
        self.mild = _mild(self.policy)

    def seen(self, index: Tensor) -> Tensor:
        return self._varied(index, self.policy)

    strong = seen

    def weak(self, index: Tensor) -> Tensor:
        return self._varied(index, self.mild)

    def _varied(self, index: Tensor, policy: Augmentation) -> Tensor:
        images = self.samples[index.to(self.samples.device)]
        h: Tensor = self.trunk(augment(images, policy, self.generator))
        return h


def _mild(policy: Augmentation) -> Augmentation:
    """Only the flip, and a crop of most of the image."""
    return replace(
        policy,
        crop_scale=(0.8, 1.0),
        grayscale=0.0,
        jitter_probability=0.0,
        blur=0.0,
        rotation=0.0,
        shear=0.0,
        shift=0.0,
        noise=0.0,
    )
