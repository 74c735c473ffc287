"""Views: random variants of a sample that should get the same representation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from unbend.knobs import ViewConfig
from unbend.progress import Progress, silent
from unbend.samples.augment import augment
from unbend.samples.neighbors import nearest_neighbors
from unbend.samples.reach import within_reach

__all__ = ["GRAPH_NEIGHBORS", "ViewSampler"]

GRAPH_NEIGHBORS = 10  # in the graph of the samples, from the nearest of which views start


class ViewSampler:
    """Draw A views of the samples of a batch (line 5 of Algorithm 1).

    The first view starts from the sample itself. With ``n_neighbors > 0`` each further view
    starts from a random nearest neighbour of the sample. For vectors, which cannot be augmented,
    this is what makes the views differ; for images it links different styles of one class. Images
    are then augmented; vectors get Gaussian noise if ``noise > 0``.

    Parameters
    ----------
    samples : Tensor of shape (n, p) or (n, c, h, w)
        Scaled samples on the device of the network.
    config : ViewConfig
        Settings of the views.
    generator : torch.Generator
        On the CPU; the only source of randomness.
    progress : callable
        Receives the progress of the neighbour search.
    search : callable
        Finds the neighbours; same arguments as :func:`nearest_neighbors`.
    vary : callable, optional
        ``vary(x, generator)`` returns a random variant of each of the samples x (b, ...), in place
        of augmentation and noise.
    """

    def __init__(
        self,
        samples: Tensor,
        config: ViewConfig,
        generator: torch.Generator,
        progress: Progress = silent,
        *,
        search: Callable[..., Tensor] = nearest_neighbors,
        vary: Callable[[Tensor, torch.Generator], Tensor] | None = None,
    ) -> None:
        self.samples = samples
        self._drawn = samples
        self.config = config
        self.generator = generator
        self._search, self._progress, self._given = search, progress, vary
        self._noise = config.noise * self._typical_distance() if config.noise else 0.0

    @cached_property
    def graph(self) -> Tensor:
        """The ten nearest neighbours of each sample, or more if views need more.

        On thin manifolds, those within reach.
        """
        config = self.config
        found = self._search(
            self.samples,
            max(config.n_neighbors, GRAPH_NEIGHBORS),
            progress=self._progress,
            metric=config.metric,
        )
        # A run has replaced "auto" by a number.
        return within_reach(self.samples, found, config.metric, int(config.parts))

    @cached_property
    def neighbors(self) -> Tensor:
        """Neighbours (n, k) that views start from, searched when the first view needs them.

        A run resumed from a checkpoint restores them instead.
        """
        k = self.config.n_neighbors
        if k == 0:
            return torch.empty(len(self), 0, dtype=torch.long, device=self.device)
        return self.graph[:, :k]

    def __len__(self) -> int:
        return len(self.samples)

    def map_once(self, fixed: Callable[[Tensor], Tensor]) -> None:
        """Draw views of ``fixed(samples)``, which the network would otherwise repeat in each step.

        Views that change a sample before the network sees it are not mapped.
        """
        if self._given is None and not self._noise:
            self._drawn = fixed(self.samples)

    def refresh(self, features: Tensor) -> None:
        """Search the neighbours again, in a learned representation (n, d)."""
        self.neighbors = nearest_neighbors(features, self.config.n_neighbors)

    def state(self) -> dict[str, Any]:
        """The state that :meth:`refresh` changes. The caller saves the generator."""
        return {"neighbors": self.neighbors.to(torch.int32)}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Continue from what :meth:`state` returned."""
        self.neighbors = state["neighbors"].to(self.device, torch.long)

    def __call__(self, index: Tensor) -> Tensor:
        """Views (A, b, ...) of the samples at ``index`` (b,)."""
        views = [
            self._vary(self._drawn[(index if a == 0 else self._neighbor(index)).to(self.device)])
            for a in range(self.config.n_views)
        ]
        return torch.stack(views)

    def small(self, index: Tensor, n: int, size: float, scale: tuple[float, float]) -> list[Tensor]:
        """``n`` small crops of the images at ``index`` (b,), for methods with multi-crop.

        Their sides are ``size`` times those of the images, and always shorter; they keep
        ``scale`` of the area. Like all views but the first, they start from a neighbour if
        neighbours are used.
        """
        if self._given is not None:
            raise ValueError(
                "small crops need the built-in augmentation and do not work with `views`; set "
                "'pretrain.swav.small_crops' to 0"
            )
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
        """Unit of the samples in progress messages."""
        return "images" if self.samples.ndim == 4 else "samples"

    @property
    def device(self) -> torch.device:
        """Device of the samples."""
        return self.samples.device

    def _neighbor(self, index: Tensor) -> Tensor:
        k = self.neighbors.shape[1]
        if k == 0:
            return index
        pick = torch.randint(k, index.shape, generator=self.generator)
        return self.neighbors[index.to(self.device), pick.to(self.device)]

    def _vary(self, x: Tensor) -> Tensor:
        if self._given is not None:
            return self._vary_as_given(x)
        if x.ndim == 4:
            return augment(x, self.config.augmentation, self.generator)
        if self._noise:
            x = x + self._noise * torch.randn(x.shape, generator=self.generator).to(x)
        return x

    def _vary_as_given(self, x: Tensor) -> Tensor:
        assert self._given is not None
        varied = self._given(x, self.generator)
        if not isinstance(varied, Tensor) or varied.shape != x.shape:
            got = tuple(varied.shape) if isinstance(varied, Tensor) else type(varied).__name__
            raise ValueError(
                f"`views` must return a tensor of its input's shape {tuple(x.shape)}, got {got}"
            )
        return varied.to(x)

    def _typical_distance(self) -> float:
        """Median distance to the nearest neighbour per coordinate: the scale of the noise."""
        x = self.samples.flatten(1)
        nearest = nearest_neighbors(x, 1)[:, :1]
        if nearest.numel() == 0:
            return 0.0
        gap = (x - x[nearest[:, 0]]).square().mean(1).sqrt()
        return float(gap.median())
