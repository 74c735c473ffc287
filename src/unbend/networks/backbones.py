"""Backbones: from a sample to a vector h."""

from __future__ import annotations

from collections.abc import Callable

from torch import nn

from unbend.config import NetworkConfig
from unbend.networks.resnet import ResNet18

__all__ = ["BACKBONES", "build_backbone", "resolve_backbone"]

Shape = tuple[int, ...]


def _resnet18(shape: Shape, config: NetworkConfig) -> nn.Module:
    return ResNet18(shape[0], config.width, small_images=True)


def _resnet18_imagenet(shape: Shape, config: NetworkConfig) -> nn.Module:
    return ResNet18(shape[0], config.width, small_images=False)


def _convnet(shape: Shape, config: NetworkConfig) -> nn.Module:
    """Strided 3×3 convolutions down to a 2×2..3×3 map: minutes, not hours, on a CPU."""
    channels, height, width = shape
    layers: list[nn.Module] = []
    n_in, n_out, side = channels, config.width, (height, width)
    stride = 1
    while True:
        layers += [nn.Conv2d(n_in, n_out, 3, stride, 1, bias=False), nn.BatchNorm2d(n_out)]
        layers += [nn.ReLU(inplace=True)]
        side = (-(-side[0] // stride), -(-side[1] // stride))
        if min(side) <= 3:
            break
        n_in, n_out, stride = n_out, min(2 * n_out, 8 * config.width), 2
    # The map is kept, not averaged: in small images the place of a stroke matters. A long side
    # (panoramas) is pooled so that the width of h does not grow with it.
    layers += [nn.AdaptiveAvgPool2d((min(side[0], 3), min(side[1], 3))), nn.Flatten()]
    net = nn.Sequential(*layers)
    net.out_features = n_out * min(side[0], 3) * min(side[1], 3)  # type: ignore[assignment]
    return net


def _mlp(shape: Shape, config: NetworkConfig) -> nn.Module:
    """Affine layers with ReLU; one hidden layer of 100 is the paper's simulation."""
    layers: list[nn.Module] = [nn.Flatten()]
    n_in = 1
    for side in shape:
        n_in *= side
    for _ in range(config.depth):
        layers += [nn.Linear(n_in, config.width), nn.ReLU(inplace=True)]
        n_in = config.width
    net = nn.Sequential(*layers)
    net.out_features = n_in  # type: ignore[assignment]
    return net


def _identity(shape: Shape, config: NetworkConfig) -> nn.Module:
    """No backbone: the samples are embeddings already."""
    return _mlp(shape, NetworkConfig(depth=0))


BACKBONES: dict[str, Callable[[Shape, NetworkConfig], nn.Module]] = {
    "resnet18": _resnet18,
    "resnet18-imagenet": _resnet18_imagenet,
    "convnet": _convnet,
    "mlp": _mlp,
    "identity": _identity,
}
_NEEDS_IMAGES = ("resnet18", "resnet18-imagenet", "convnet")


def resolve_backbone(name: str, shape: Shape) -> str:
    """What ``"auto"`` means for samples of this shape; other names stay."""
    if name == "auto":
        return "convnet" if len(shape) == 3 else "mlp"
    return name


def build_backbone(shape: Shape, config: NetworkConfig) -> nn.Module:
    """Build the backbone named in ``config`` for samples of ``shape``: (p,) or (c, h, w)."""
    name = resolve_backbone(config.backbone, shape)
    if name not in BACKBONES:
        raise ValueError(
            f"`backbone` must be one of auto, {', '.join(BACKBONES)}, got {config.backbone!r}"
        )
    if name in _NEEDS_IMAGES and len(shape) != 3:
        raise ValueError(
            f"backbone {name!r} needs images (n, h, w) or (n, c, h, w), got vectors of width "
            f"{shape[0]}; use 'mlp' or 'identity'"
        )
    return BACKBONES[name](shape, config)
