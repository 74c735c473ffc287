"""Backbones: from a sample to a vector h."""

from __future__ import annotations

import copy
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from unbend.knobs import NetworkConfig
from unbend.networks.resnet import ResNet18

__all__ = [
    "BACKBONES",
    "FixedMap",
    "GIVEN",
    "adopt_backbone",
    "build_backbone",
    "resolve_backbone",
]

Shape = tuple[int, ...]


def _resnet18(shape: Shape, config: NetworkConfig) -> nn.Module:
    return ResNet18(shape[0], config.width, small_images=True)


def _resnet18_imagenet(shape: Shape, config: NetworkConfig) -> nn.Module:
    return ResNet18(shape[0], config.width, small_images=False)


def _convnet(shape: Shape, config: NetworkConfig) -> nn.Module:
    """Strided 3×3 convolutions down to a 2×2 or 3×3 map, quick enough for a CPU."""
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
    # The map is not averaged, because in small images the position of a stroke matters. The long
    # side of a panorama is pooled so that h does not grow with it.
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
    """No backbone, for samples that are embeddings already."""
    return _mlp(shape, NetworkConfig(depth=0))


BACKBONES: dict[str, Callable[[Shape, NetworkConfig], nn.Module]] = {
    "resnet18": _resnet18,
    "resnet18-imagenet": _resnet18_imagenet,
    "convnet": _convnet,
    "mlp": _mlp,
    "identity": _identity,
}
GIVEN = "module:"  # begins the name of a backbone that the caller gave as a module
_NEEDS_IMAGES = ("resnet18", "resnet18-imagenet", "convnet")


def resolve_backbone(name: str, shape: Shape) -> str:
    """Resolve ``"auto"`` for samples of this shape; other names are returned unchanged."""
    if name == "auto":
        return "convnet" if len(shape) == 3 else "mlp"
    return name


def build_backbone(shape: Shape, config: NetworkConfig) -> nn.Module:
    """Build the backbone named in ``config`` for samples of ``shape``: (p,) or (c, h, w)."""
    name = resolve_backbone(config.backbone, shape)
    if isinstance(name, str) and name.startswith(GIVEN):
        raise ValueError(
            f"the backbone was a module of class {name.removeprefix(GIVEN)!r}, of which only the "
            "weights are saved; give it again: load(path, backbone=...)"
        )
    if not isinstance(name, str) or name not in BACKBONES:  # it may come from a file of others
        raise ValueError(
            f"`backbone` must be one of auto, {', '.join(BACKBONES)}, got {config.backbone!r}"
        )
    if name in _NEEDS_IMAGES and len(shape) != 3:
        raise ValueError(
            f"backbone {name!r} needs images (n, h, w) or (n, c, h, w), got vectors of width "
            f"{shape[0]}; use 'mlp' or 'identity'"
        )
    first = _fixed_map(shape, config)
    if first is None:
        return BACKBONES[name](shape, config)
    rest = BACKBONES[name]((first.basis.shape[1],), config)
    if config.project and not config.whiten:
        _scale_first(rest, (first.basis.shape[1] / first.basis.shape[0]) ** 0.5)
    net = nn.Sequential(first, *rest)  # type: ignore[misc]
    net.out_features = rest.out_features
    return net


@torch.no_grad()
def _scale_first(net: nn.Module, factor: float) -> None:
    """Scale the first affine layer, so that projected samples start as all columns would.

    torch draws the weights of a layer in inverse proportion to the root of its number of inputs.
    Directions that are left out hold little variance, so without this the first activations would
    be larger.
    """
    first = next((layer for layer in net.modules() if isinstance(layer, nn.Linear)), None)
    if first is not None:
        for weights in first.parameters():
            weights.mul_(factor)


class FixedMap(nn.Module):
    """Centred rows mapped by a basis that training does not change; of unit length if ``unit``.

    Rows that are mapped already pass unchanged. Their width tells, where the basis has fewer
    directions than columns.
    """

    basis: Tensor

    def __init__(self, n_columns: int, n_directions: int, unit: bool) -> None:
        super().__init__()
        self.unit = unit
        self.register_buffer("basis", torch.eye(n_columns)[:, :n_directions])

    @property
    def reduces(self) -> bool:
        """Whether there are fewer directions than columns."""
        return self.basis.shape[1] < self.basis.shape[0]

    def has_mapped(self, x: Tensor) -> bool:
        """Whether rows come from this layer."""
        return self.reduces and x.shape[1:] == self.basis.shape[1:]

    def forward(self, x: Tensor) -> Tensor:
        if self.has_mapped(x):
            return x
        return (normalize(x, dim=1) if self.unit else x) @ self.basis


def _fixed_map(shape: Shape, config: NetworkConfig) -> FixedMap | None:
    """The first layer that whitens or projects vectors, if the config has one."""
    for name in ("whiten", "project"):
        n_directions = getattr(config, name)
        if not n_directions or n_directions == "auto":
            continue
        if len(shape) != 1 or n_directions > shape[0]:
            raise ValueError(
                f"setting 'network.{name}' must be at most the width of vectors, got "
                f"{n_directions} for samples of shape {shape}; use 0"
            )
        return FixedMap(shape[0], n_directions, unit=name == "whiten")
    return None


@torch.no_grad()
def adopt_backbone(shape: Shape, module: nn.Module) -> nn.Module:
    """A copy of a module that maps samples of ``shape`` (b, ...) to vectors h (b, w)."""
    backbone = copy.deepcopy(module)
    like = next(backbone.parameters(), torch.zeros(0))
    try:
        h = backbone.eval()(torch.zeros(2, *shape, device=like.device, dtype=like.dtype))
    except RuntimeError as error:
        reason = str(error).splitlines()[0]
        raise ValueError(
            f"`backbone` must take samples of shape (b, {', '.join(map(str, shape))}): {reason}"
        ) from error
    if not isinstance(h, torch.Tensor) or h.ndim != 2 or len(h) != 2:
        found = tuple(h.shape) if isinstance(h, torch.Tensor) else type(h).__name__
        raise ValueError(
            f"`backbone` must return vectors (b, w), got {found} for 2 samples; end it with "
            "nn.Flatten()"
        )
    backbone.out_features = h.shape[1]  # type: ignore[assignment]
    return backbone.train()
