import math

import pytest
import torch
from tests.oracles.training import global_random_state_kept
from torch import nn

from unbend.config import NetworkConfig
from unbend.networks import BACKBONES, build_backbone
from unbend.networks.resnet import ResNet18


def size(module: nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())


def build(shape: tuple[int, ...], **config: object) -> nn.Module:
    return build_backbone(shape, NetworkConfig(**config)).eval()


# ---------------------------------------------------------------- ResNet-18


@pytest.mark.parametrize(
    ("name", "parameters"), [("resnet18", 11_168_832), ("resnet18-imagenet", 11_176_512)]
)
def test_resnet18_has_the_published_number_of_parameters(name, parameters):
    """Of 11,689,512 the ImageNet classifier has 513,000; the CIFAR stem is 3x3 and not 7x7."""
    assert size(build((3, 32, 32), backbone=name, width=64)) == parameters


@pytest.mark.parametrize(("small", "map_side"), [(True, (4, 5)), (False, (1, 2))])
def test_resnet18_reduces_the_image_as_often_as_its_form_says(small, map_side):
    """The CIFAR form halves three times, the ImageNet form five times."""
    net = ResNet18(1, 4, small_images=small).eval()
    sides = []
    net.layer4.register_forward_hook(lambda m, i, o: sides.append(tuple(o.shape[2:])))
    net(torch.zeros(1, 1, 32, 40))
    assert sides == [map_side]
    assert isinstance(net.maxpool, nn.Identity) == small


def test_resnet18_names_its_parameters_like_public_checkpoints():
    names = set(ResNet18(3, 4).state_dict())
    assert {"conv1.weight", "bn1.running_mean", "layer1.0.conv1.weight"} <= names
    assert {"layer2.0.downsample.0.weight", "layer4.1.bn2.bias"} <= names
    assert not any(name.startswith("fc") for name in names)


def test_a_block_adds_its_short_cut():
    block = ResNet18(3, 4).layer1[1].eval()
    nn.init.zeros_(block.bn2.weight)  # the branch is silent
    x = torch.rand(2, 4, 6, 6, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(block(x), x)


# ---------------------------------------------------------------- all

IMAGES = [(1, 8, 8), (3, 28, 28), (3, 32, 32), (3, 96, 96), (1, 4, 4), (3, 20, 33), (1, 100, 5)]


@pytest.mark.parametrize("name", ["resnet18", "resnet18-imagenet", "convnet", "mlp", "identity"])
@pytest.mark.parametrize("shape", IMAGES)
def test_every_backbone_takes_every_image(name, shape):
    net = build(shape, backbone=name, width=4)
    x = torch.rand(2, *shape, generator=torch.Generator().manual_seed(0))
    h = net(x)
    assert h.shape == (2, net.out_features)
    assert h.isfinite().all()
    assert not torch.equal(h[0], h[1])


@pytest.mark.parametrize("side", [4, 8, 28, 32, 96])
def test_convnet_halves_down_to_a_small_map(side):
    """As 8 -> 4 -> 2: the channels double each time, up to eight times the first width."""
    width = build((1, side, side), backbone="convnet", width=4).out_features
    halvings = 0
    while side > 3:
        side, halvings = math.ceil(side / 2), halvings + 1
    assert width == 4 * min(2**halvings, 8) * side**2


def test_convnet_keeps_the_place_of_a_stroke():
    net = build((1, 8, 8), backbone="convnet", width=4)
    image = torch.zeros(1, 1, 8, 8)
    image[..., 1:3, 1:3] = 1
    assert not torch.allclose(net(image), net(image.flip(3)), atol=1e-3)


@pytest.mark.parametrize(("depth", "parameters"), [(0, 0), (1, 400), (2, 400 + 10_100)])
def test_mlp_of_the_simulation_is_one_hidden_layer_of_100(depth, parameters):
    net = build((3,), backbone="mlp", width=100, depth=depth)
    assert size(net) == parameters
    assert net.out_features == (100 if depth else 3)


def test_mlp_is_relu_of_an_affine_map():
    net = build((3,), backbone="mlp", width=5)
    linear = next(m for m in net if isinstance(m, nn.Linear))
    x = torch.randn(4, 3, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(net(x), (x @ linear.weight.T + linear.bias).clamp(min=0))


def test_identity_is_the_sample():
    x = torch.randn(4, 1, 5, 6, generator=torch.Generator().manual_seed(0))
    assert torch.equal(build((1, 5, 6), backbone="identity")(x), x.flatten(1))
    assert size(build((7,), backbone="identity")) == 0


@pytest.mark.parametrize(("shape", "kind"), [((1, 8, 8), nn.Conv2d), ((8,), nn.Linear)])
def test_auto_looks_at_the_shape(shape, kind):
    assert any(isinstance(m, kind) for m in build(shape, width=4).modules())


@pytest.mark.parametrize(
    ("shape", "name", "words"),
    [
        (
            (3, 8, 8),
            "resnet50",
            rf"`backbone` must be one of auto, {', '.join(BACKBONES)}, got 'res",
        ),
        ((9,), "convnet", r"'convnet' needs images .* got vectors of width 9; use 'mlp'"),
        ((9,), "resnet18", r"'resnet18' needs images"),
        ((9,), "resnet18-imagenet", r"'resnet18-imagenet' needs images"),
    ],
)
def test_invalid_names_and_shapes_raise(shape, name, words):
    with global_random_state_kept(), pytest.raises(ValueError, match=words):
        build(shape, backbone=name)
