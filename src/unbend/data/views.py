"""Views: random variants of a sample that should get the same place in the representation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from unbend.config import ViewConfig
from unbend.data.augment import augment
from unbend.data.neighbors import nearest_neighbors
from unbend.progress import Progress, silent

__all__ = ["ViewSampler"]


class ViewSampler:
    """Draws A views of the samples of a batch (line 5 of Algorithm 1).

    The first view starts from the sample itself. With ``n_neighbors > 0`` each further view
    starts from a random one of the sample's nearest neighbours: this is what views are for
    vectors, which have no augmentation of their own, and it joins the styles of one class for
    images. Images are then augmented; vectors get Gaussian noise where ``noise > 0``.

    Parameters
    ----------
    samples : Tensor of shape (n, p) or (n, c, h, w)
        Scaled samples on the device of the network.
    config : ViewConfig
        What a view is.
    generator : torch.Generator
        On the CPU; the only source of randomness.
    progress : callable
        Told about the search for neighbours.
    search : callable
        What finds them, with the arguments of :func:`nearest_neighbors`.
    """

    def __init__(
        self,
        samples: Tensor,
        config: ViewConfig,
        generator: torch.Generator,
        progress: Progress = silent,
        *,
        search: Callable[..., Tensor] = nearest_neighbors,
    ) -> None:
        self.samples = samples
        self.config = config
        self.generator = generator
        self._search, self._progress = search, progress
        self._noise = config.noise * self._typical_distance() if config.noise else 0.0

    @cached_property
    def neighbors(self) -> Tensor:
        """Neighbours (n, k) of each sample, looked up when the first view needs them.

        A run that goes on from a checkpoint brings them along.
        """
        config = self.config
        return self._search(
            self.samples, config.n_neighbors, progress=self._progress, metric=config.metric
        )

    def __len__(self) -> int:
        return len(self.samples)

    def refresh(self, features: Tensor) -> None:
        """Look the neighbours up anew, in a learned representation (n, d)."""
        self.neighbors = nearest_neighbors(features, self.config.n_neighbors)

    def state(self) -> dict[str, Any]:
        """What :meth:`refresh` changes; the generator is its owner's to keep."""
        return {"neighbors": self.neighbors.to(torch.int32)}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Go on where :meth:`state` was taken."""
        self.neighbors = state["neighbors"].to(self.device, torch.long)

    def __call__(self, index: Tensor) -> Tensor:
        """Views (A, b, ...) of the samples at ``index`` (b,)."""
        views = [
            self._vary(self.samples[(index if a == 0 else self._neighbor(index)).to(self.device)])
            for a in range(self.config.n_views)
        ]
        return torch.stack(views)

    def small(self, index: Tensor, n: int, size: float, scale: tuple[float, float]) -> list[Tensor]:
        """``n`` small crops of the images at ``index`` (b,), for methods with multi-crop.

        Their sides are ``size`` times those of the images, and always shorter; they keep
        ``scale`` of the area. Like all views but the first they start from a neighbour where
        there are neighbours.
        """
        sides = [min(side - 1, max(4, round(size * side))) for side in self.samples.shape[-2:]]
        policy = replace(self.config.augmentation, crop_scale=scale)
        return [
            augment(
                self.samples[self._neighbor(index).to(self.device)],
                policy,
                self.generator,
                (sides[0], sides[1]),
            )
            for _ in range(n)
        ]

    @property
    def unit(self) -> str:
        """What a sample is called."""
        return "images" if self.samples.ndim == 4 else "samples"

    @property
    def device(self) -> torch.device:
        """Where the samples are."""
        return self.samples.device

    def _neighbor(self, index: Tensor) -> Tensor:
        k = self.neighbors.shape[1]
        if k == 0:
            return index
        pick = torch.randint(k, index.shape, generator=self.generator)
        return self.neighbors[index.to(self.device), pick.to(self.device)]

    def _vary(self, x: Tensor) -> Tensor:
        if x.ndim == 4:
            return augment(x, self.config.augmentation, self.generator)
        if self._noise:
            x = x + self._noise * torch.randn(x.shape, generator=self.generator).to(x)
        return x

    def _typical_distance(self) -> float:
        """Median distance to the nearest neighbour per coordinate: the scale of the noise."""
        x = self.samples.flatten(1)
        nearest = nearest_neighbors(x, 1)[:, :1]
        if nearest.numel() == 0:
            return 0.0
        gap = (x - x[nearest[:, 0]]).square().mean(1).sqrt()
        return float(gap.median())
