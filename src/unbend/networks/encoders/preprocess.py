"""Prepare pixels as a pre-trained network expects them: channels, size, crop, normalisation."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

__all__ = ["IMAGENET_MEAN", "IMAGENET_STD", "Preprocessing"]

IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
_MODES = ("bicubic", "bilinear", "nearest")
_LUMA = (0.299, 0.587, 0.114)  # ITU-R BT.601, the weights of Pillow's "L"


@dataclass(frozen=True)
class Preprocessing:
    """Resize, crop the centre, and normalise.

    Parameters
    ----------
    size : (int, int) or None
        Height and width of the network's images; None keeps the size of the images.
    mean, std : tuple of float
        Per channel, for pixels in [0, 1]. Their number is the number of channels.
    interpolation : {"bicubic", "bilinear", "nearest"}
    crop : float or None
        Resize the short side to ``size / crop`` and crop the centre; None resizes the whole image
        to ``size``, regardless of its proportions.

    Notes
    -----
    Images are shrunk as bytes, as by Pillow, with which models are trained; on a CPU this is also
    seven times faster than with floats. They are enlarged as floats, because rounding a strongly
    enlarged image to bytes adds noise that a network sees.
    """

    size: tuple[int, int] | None
    mean: tuple[float, ...] = IMAGENET_MEAN
    std: tuple[float, ...] = IMAGENET_STD
    interpolation: str = "bicubic"
    crop: float | None = 1.0

    def __post_init__(self) -> None:
        if self.interpolation not in _MODES:
            raise ValueError(
                f"interpolation must be one of {', '.join(_MODES)}, got {self.interpolation!r}"
            )
        if len(self.mean) != len(self.std) or len(self.mean) not in (1, 3):
            raise ValueError(
                f"mean and std must both have 1 or 3 numbers, got {self.mean} and {self.std}"
            )
        if not all(s > 0 for s in self.std):
            raise ValueError(f"std must be > 0 for every channel, got {self.std}")

    @property
    def resolution(self) -> int | tuple[int, int] | None:
        """The side length if ``size`` is square, otherwise (height, width)."""
        if self.size is None or self.size[0] != self.size[1]:
            return self.size
        return self.size[0]

    def __call__(self, images: Tensor) -> Tensor:
        """Images (b, c, h, w), uint8 or float in [0, 1], to the network's input (b, C, H, W)."""
        return self.normalize(self.resize(self.channels(images)))

    def channels(self, images: Tensor) -> Tensor:
        """Convert gray to three equal channels, or colour to luminance for a gray network."""
        have, want = images.shape[1], len(self.mean)
        if have == want:
            return images
        if have == 1:
            return images.expand(-1, want, -1, -1)
        if have != 3:
            raise ValueError(f"images must have 1 or 3 channels, got {have}; convert them to RGB")
        weights = torch.tensor(_LUMA, device=images.device).view(1, 3, 1, 1)
        gray = (images * weights).sum(1, keepdim=True)
        return gray.round().to(torch.uint8) if images.dtype == torch.uint8 else gray

    def resize(self, images: Tensor) -> Tensor:
        """Images of the network's size, uint8 or float in [0, 1]."""
        if self.size is None or tuple(images.shape[-2:]) == self.size:
            return images
        target, window = self._target(images.shape[-2], images.shape[-1])
        if target != tuple(images.shape[-2:]):
            images = _interpolate(images, target, self.interpolation)
        top, left = (target[0] - window[0]) // 2, (target[1] - window[1]) // 2
        return images[..., top : top + window[0], left : left + window[1]]

    def normalize(self, images: Tensor) -> Tensor:
        """(x - mean) / std in float32, channels last in memory."""
        scale = 255.0 if images.dtype == torch.uint8 else 1.0
        x = images.to(torch.float32).contiguous(memory_format=torch.channels_last)
        x = x.clone() if x.data_ptr() == images.data_ptr() else x  # keep the caller's tensor
        if len(set(self.mean)) == len(set(self.std)) == 1:  # one number allows one fast pass
            return x.sub_(self.mean[0] * scale).mul_(1 / (self.std[0] * scale))
        mean = torch.tensor(self.mean, device=x.device).view(1, -1, 1, 1) * scale
        std = torch.tensor(self.std, device=x.device).view(1, -1, 1, 1) * scale
        return x.sub_(mean).div_(std)

    def _target(self, height: int, width: int) -> tuple[tuple[int, int], tuple[int, int]]:
        """Size after resizing, and the window to crop from it."""
        assert self.size is not None
        if self.crop is None:
            return self.size, self.size
        wanted = [max(round(side / self.crop), side) for side in self.size]
        zoom = max(wanted[0] / height, wanted[1] / width)
        # The long side is truncated to whole pixels, not rounded, as in the usual libraries.
        target = [int(side * zoom + 1e-6) for side in (height, width)]
        return (max(target[0], wanted[0]), max(target[1], wanted[1])), self.size

    def to_json(self) -> str:
        """A string that identifies the preprocessing, for fingerprints."""
        return json.dumps(asdict(self), sort_keys=True)


def _bytes(images: Tensor) -> Tensor:
    if images.dtype == torch.uint8:
        return images
    return images.mul(255).round_().clamp_(0, 255).to(torch.uint8)


def _interpolate(images: Tensor, size: tuple[int, int], mode: str) -> Tensor:
    if mode == "nearest":
        return F.interpolate(images, size, mode="nearest-exact")
    larger = size[0] * size[1] > images.shape[-2] * images.shape[-1]
    if not larger and images.device.type == "cpu":  # other devices cannot resize bytes
        images = _bytes(images).contiguous(memory_format=torch.channels_last)  # the fast path
        return F.interpolate(images, size, mode=mode, antialias=True, align_corners=False)
    x = images.float().div_(255) if images.dtype == torch.uint8 else images.float()
    x = F.interpolate(x, size, mode=mode, antialias=True, align_corners=False)
    return x.clamp_(0, 1)  # bicubic overshoots
