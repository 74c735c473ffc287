"""Views of images through a frozen encoder: encoded once in advance, or anew in each step."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unbend.knobs import Augmentation, ViewConfig
from unbend.progress import Progress, silent
from unbend.samples.augment import augment
from unbend.samples.views import ViewSampler

__all__ = ["CachedViews", "LiveViews", "augmented", "policy_fingerprint"]


class CachedViews(ViewSampler):
    """Views drawn from V augmented copies of each image that were encoded beforehand.

    The loss is the same as with :class:`LiveViews`, but the encoder runs V times in total instead
    of A times per step. The A views of a sample are different copies as long as V ≥ A.

    Parameters
    ----------
    samples : Tensor of shape (n, p)
        Scaled embeddings of the original images; neighbours are searched among them.
    bank : Tensor of shape (V, n, p)
        Embeddings of the copies, with the same scaling.
    """

    def __init__(
        self,
        samples: Tensor,
        config: ViewConfig,
        generator: torch.Generator,
        progress: Progress = silent,
        *,
        bank: Tensor,
        **options: Any,
    ) -> None:
        super().__init__(samples, config, generator, progress, **options)
        if bank.ndim != 3 or bank.shape[1:] != samples.shape:
            raise ValueError(
                f"`bank` of CachedViews must be (V, {len(samples)}, {samples.shape[1]}), got "
                f"{tuple(bank.shape)}"
            )
        self.bank = bank

    def map_once(self, fixed: Callable[[Tensor], Tensor]) -> None:
        """Draw views of the mapped copies."""
        if self._given is None and not self._noise:
            self.bank = torch.stack([fixed(copies.to(self.samples)) for copies in self.bank])

    def __call__(self, index: Tensor) -> Tensor:
        """Views (A, b, p) of the samples at ``index`` (b,)."""
        n_copies = len(self.bank)
        order = torch.rand(len(index), n_copies, generator=self.generator).argsort(1)
        views = []
        for a in range(self.config.n_views):
            start = (index if a == 0 else self._neighbor(index)).to(self.bank.device)
            copy = order[:, a % n_copies].to(self.bank.device)
            views.append(self._vary(self.bank[copy, start].to(self.samples)))
        return torch.stack(views)


class LiveViews(ViewSampler):
    """Views as in the paper: each step augments the images anew and encodes them.

    Parameters
    ----------
    samples : Tensor of shape (n, p)
        Scaled embeddings of the original images.
    images : array of shape (n, c, h, w)
        uint8, or float in [0, 1]; may be memory-mapped.
    embed : callable
        Maps images (b, c, h, w) in [0, 1] to scaled vectors (b, p).
    """

    def __init__(
        self,
        samples: Tensor,
        config: ViewConfig,
        generator: torch.Generator,
        progress: Progress = silent,
        *,
        images: NDArray[Any],
        embed: Callable[[Tensor], Tensor],
        **options: Any,
    ) -> None:
        super().__init__(samples, config, generator, progress, **options)
        self.images, self.embed = images, embed

    def __call__(self, index: Tensor) -> Tensor:
        """Views (A, b, p) of the samples at ``index`` (b,)."""
        views = []
        for a in range(self.config.n_views):
            start = (index if a == 0 else self._neighbor(index)).cpu().numpy()
            x = augment(unit_range(self.images[start]), self.config.augmentation, self.generator)
            # Clone: autograd cannot use tensors created in inference mode.
            views.append(self._vary(self.embed(x.clamp_(0, 1)).clone().to(self.samples)))
        return torch.stack(views)


def augmented(
    images: NDArray[Any], hashes: Sequence[str], policy: Augmentation, copy: int
) -> Tensor:
    """Copy number ``copy`` of each image, float in [0, 1].

    The random numbers are seeded by the content of the image, so a copy and its cached embedding
    do not depend on the other images in the batch.
    """
    copies = []
    for image, text in zip(images, hashes, strict=True):
        seed = hashlib.blake2b(f"{copy}|{text}".encode(), digest_size=8).digest()
        generator = torch.Generator().manual_seed(int.from_bytes(seed, "big") >> 1)
        copies.append(augment(unit_range(image[None]), policy, generator).clamp_(0, 1))
    return torch.cat(copies)


def policy_fingerprint(policy: Augmentation) -> str:
    """A string that identifies the augmentation."""
    return json.dumps(asdict(policy), sort_keys=True)


def unit_range(images: NDArray[Any]) -> Tensor:
    """Images (b, h, w) or (b, c, h, w) as floats (b, c, h, w) in [0, 1]."""
    x = torch.from_numpy(np.ascontiguousarray(images, dtype=np.float32))
    x = x.div(255) if images.dtype == np.uint8 else x.clone()
    return x[:, None] if x.ndim == 3 else x
