"""The paper's Augmentation 1, batched on the device, with separate random draws per sample.

Colour operations and blur are kornia's, imported on first use; their random numbers are drawn here
from an explicit generator on the CPU, so the global random state is never used and every device
gets the same draws.
Crop, flip, rotation, shear and shift form one affine map, so pixels are resampled only once.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from unbend.knobs import Augmentation

__all__ = ["augment"]


def augment(
    images: Tensor,
    policy: Augmentation,
    generator: torch.Generator,
    size: tuple[int, int] | None = None,
) -> Tensor:
    """Return a random variant of each image (b, c, h, w) with values in [0, 1].

    ``size`` is the height and width of the variants, those of the images by default.

    Single-channel images skip the colour operations (grayscale, saturation, hue).
    The order is the paper's: crop and flip, grayscale, jitter, blur; noise comes last. The aspect
    ratio of a crop is relative to that of the image, and rotation is done in pixel coordinates,
    so images that are not square are not distorted.
    """
    draw = _Draw(len(images), generator, images)
    images = _geometry(images, policy, draw, size or (images.shape[-2], images.shape[-1]))
    if images.shape[1] == 3 and policy.grayscale > 0:
        images = torch.where(draw.chance(policy.grayscale), _gray(images), images)
    if policy.jitter_probability > 0 and any(policy.jitter):
        images = _jitter(images, policy, draw)
    if policy.blur > 0:
        images = _blur(images, policy, draw)
    if policy.noise > 0:
        images = images + policy.noise * draw.normal(images.shape)
    return images


class _Draw:
    """Random numbers per sample, drawn on the CPU and moved to the device of the images."""

    def __init__(self, n: int, generator: torch.Generator, like: Tensor) -> None:
        self.n, self.generator, self.like = n, generator, like

    def uniform(self, low: float, high: float) -> Tensor:
        return torch.rand(self.n, generator=self.generator).mul_(high - low).add_(low).to(self.like)

    def chance(self, probability: float) -> Tensor:
        """Mask (b, 1, 1, 1) that is true with this probability."""
        return (self.uniform(0, 1) < probability).view(-1, 1, 1, 1)

    def normal(self, shape: torch.Size) -> Tensor:
        return torch.randn(shape, generator=self.generator).to(self.like)

    def order(self, k: int) -> list[int]:
        return torch.randperm(k, generator=self.generator).tolist()


def _geometry(images: Tensor, policy: Augmentation, draw: _Draw, size: tuple[int, int]) -> Tensor:
    """Crop, flip, rotation, shear and shift as one affine map from output to input."""
    height, width = images.shape[-2:]
    # Resized crop: a window of random area, aspect and position, limited to the image.
    area = draw.uniform(*policy.crop_scale)
    log_ratio = draw.uniform(math.log(policy.crop_ratio[0]), math.log(policy.crop_ratio[1]))
    ratio = (log_ratio / 2).exp()
    window = torch.stack([area.sqrt() * ratio, area.sqrt() / ratio], 1)  # width, height
    # Windows larger than the image zoom out, but only if the policy asks for it.
    window = window.clamp(max=max(1.0, math.sqrt(policy.crop_scale[1])))
    room = (1 - window).clamp(min=0)
    centre = torch.stack([draw.uniform(-1, 1), draw.uniform(-1, 1)], 1) * room
    shift = torch.stack([draw.uniform(-1, 1), draw.uniform(-1, 1)], 1) * policy.shift
    angle = draw.uniform(-policy.rotation, policy.rotation) * (math.pi / 180)
    slant = draw.uniform(-policy.shear, policy.shear)
    mirror = torch.where(draw.chance(policy.flip).flatten(), -1.0, 1.0).to(images)
    cos, sin = angle.cos(), angle.sin()
    tall = height / width  # the grid's units are half a width and half a height
    linear = torch.stack([cos, (slant - sin) * tall, sin / tall, cos], 1).view(-1, 2, 2)
    linear = linear * window[:, None]
    linear = linear * torch.stack([mirror, torch.ones_like(mirror)], 1)[:, None]
    theta = torch.cat([linear, (centre + shift)[..., None]], 2)
    grid = F.affine_grid(theta, [*images.shape[:2], *size], align_corners=False)
    # Pixels outside the image are black. A pure crop stays inside, but interpolation could add
    # half a pixel of black at its border, so crops repeat the nearest pixel instead.
    outside = policy.crop_scale[1] > 1 or policy.rotation or policy.shear or policy.shift
    padding = "zeros" if outside else "border"
    return F.grid_sample(images, grid, "bilinear", padding, align_corners=False)


def _gray(images: Tensor) -> Tensor:
    from kornia.color import rgb_to_grayscale

    gray: Tensor = rgb_to_grayscale(images)
    return gray.expand_as(images)


def _jitter(images: Tensor, policy: Augmentation, draw: _Draw) -> Tensor:
    """Brightness, contrast, saturation and hue; one random order per batch, factors per sample."""
    brightness, contrast, saturation, hue = policy.jitter
    factor = [draw.uniform(max(0, 1 - s), 1 + s) for s in (brightness, contrast, saturation)]
    turn = draw.uniform(-hue, hue) * (2 * math.pi)
    colour = images.shape[1] == 3
    steps: list[Callable[[Tensor], Tensor]] = [
        lambda x: (x * factor[0].view(-1, 1, 1, 1)).clamp(0, 1),
        lambda x: _contrast(x, factor[1]),
        lambda x: _saturation(x, factor[2]) if colour else x,
        lambda x: _hue(x, turn) if colour and hue else x,
    ]
    changed = images
    for k in draw.order(len(steps)):
        changed = steps[k](changed)
    return torch.where(draw.chance(policy.jitter_probability), changed, images)


def _contrast(images: Tensor, factor: Tensor) -> Tensor:
    if images.shape[1] == 3:
        from kornia.enhance import adjust_contrast_with_mean_subtraction

        out: Tensor = adjust_contrast_with_mean_subtraction(images, factor)
        return out
    mean = images.mean((1, 2, 3), keepdim=True)
    return ((images - mean) * factor.view(-1, 1, 1, 1) + mean).clamp(0, 1)


def _saturation(images: Tensor, factor: Tensor) -> Tensor:
    from kornia.enhance import adjust_saturation_with_gray_subtraction

    out: Tensor = adjust_saturation_with_gray_subtraction(images, factor)
    return out


def _hue(images: Tensor, turn: Tensor) -> Tensor:
    from kornia.enhance import adjust_hue

    out: Tensor = adjust_hue(images, turn)
    return out


def _blur(images: Tensor, policy: Augmentation, draw: _Draw) -> Tensor:
    chosen = draw.chance(policy.blur).flatten().nonzero().flatten()
    # Sigma is defined for 32 pixels; scale it with the image size.
    least = min(images.shape[-2:])
    sigma = (draw.uniform(*policy.blur_sigma) * (least / 32)).clamp(min=1e-3)
    if len(chosen) == 0:
        return images
    # Three deviations cover 99.7 % of a Gaussian. Reflection padding must be smaller than the
    # image.
    reach = min(max(1, math.ceil(3 * policy.blur_sigma[1] * least / 32)), least - 1)
    size = (2 * reach + 1, 2 * reach + 1)
    from kornia.filters import gaussian_blur2d

    part = gaussian_blur2d(images[chosen], size, sigma[chosen, None].expand(-1, 2))
    return images.index_copy(0, chosen, part)
