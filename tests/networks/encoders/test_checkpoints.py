"""Checkpoints of other programs: features equal an independent forward, no tensor is lost."""

import argparse
import pickle

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import save_file

from unbend.networks import load_encoder
from unbend.networks.encoders.checkpoints import match_resnet18
from unbend.networks.resnet import ResNet18

CIFAR_MEAN, CIFAR_STD = (0.4914, 0.4822, 0.4465), (0.247, 0.243, 0.261)


def weights(small: bool = True, width: int = 4, seed: int = 0) -> dict[str, torch.Tensor]:
    """A ResNet-18 under torchvision's names whose statistics are not those of a new network."""
    torch.manual_seed(seed)
    state = ResNet18(3, width, small_images=small).state_dict()
    for name, tensor in state.items():
        if name.endswith("running_var"):
            state[name] = torch.rand_like(tensor) + 0.5
        elif tensor.is_floating_point() and tensor.ndim == 1:
            state[name] = torch.randn_like(tensor) * 0.3 + (0.8 if "bn" in name else 0.1)
    return state


def forward(state: dict[str, torch.Tensor], x: torch.Tensor, padding: int) -> torch.Tensor:
    """ResNet-18 from its definition, from the tensors alone."""

    def norm(x, name):
        parts = [state[f"{name}.{p}"] for p in ("running_mean", "running_var", "weight", "bias")]
        return F.batch_norm(x, *parts)

    small = state["conv1.weight"].shape[-1] == 3
    x = F.conv2d(x, state["conv1.weight"], stride=1 if small else 2, padding=padding)
    x = norm(x, "bn1").relu()
    x = x if small else F.max_pool2d(x, 3, 2, 1)
    for stage in (1, 2, 3, 4):
        for block in (0, 1):
            name = f"layer{stage}.{block}"
            stride = 2 if stage > 1 and block == 0 else 1
            out = F.conv2d(x, state[f"{name}.conv1.weight"], stride=stride, padding=1)
            out = norm(out, f"{name}.bn1").relu()
            out = norm(F.conv2d(out, state[f"{name}.conv2.weight"], padding=1), f"{name}.bn2")
            if f"{name}.downsample.0.weight" in state:
                x = F.conv2d(x, state[f"{name}.downsample.0.weight"], stride=stride)
                x = norm(x, f"{name}.downsample.1")
            x = (out + x).relu()
    return x.mean((2, 3))


def expected(state, images, padding, mean=CIFAR_MEAN, std=CIFAR_STD):
    x = torch.from_numpy(images).double() / 255
    x = (x - torch.tensor(mean).view(3, 1, 1)) / torch.tensor(std).view(3, 1, 1)
    double = {k: v.double() for k, v in state.items()}
    return forward(double, x, padding).float().numpy()


@pytest.fixture
def images():
    return np.random.default_rng(0).integers(0, 256, (3, 3, 32, 32), dtype=np.uint8)


def renamed(state, prefix, table=None):
    def name(key):
        first, dot, rest = key.partition(".")
        return prefix + (table or {}).get(first, first) + dot + rest

    return {name(k): v for k, v in state.items()}


SIMCLR = {"conv1": "0", "bn1": "1", "layer1": "3", "layer2": "4", "layer3": "5", "layer4": "6"}
MLP = {"0.weight": torch.ones(2, 2), "0.bias": torch.ones(2)}


def extra(prefix):
    return {prefix + k: v for k, v in MLP.items()}


def test_solo_learn_with_its_padding_of_two(tmp_path, images):
    state = weights()
    contents = {
        "pytorch-lightning_version": "2.0.0",
        "epoch": 9,
        "hyper_parameters": {"lr": 0.3, "args": argparse.Namespace(name="x")},
        "state_dict": {
            **renamed(state, "backbone."),
            **renamed(weights(seed=1), "momentum_backbone."),
            **extra("projector."),
            **extra("momentum_projector."),
            **extra("predictor."),
            "classifier.weight": torch.ones(10, 32),
            "classifier.bias": torch.ones(10),
            "queue": torch.ones(2, 3),
        },
    }
    torch.save(contents, tmp_path / "solo.ckpt")
    encoder = load_encoder(tmp_path / "solo.ckpt")
    np.testing.assert_allclose(encoder.encode(images), expected(state, images, 2), atol=1e-4)
    aside = encoder.details["set_aside"]
    assert aside == {
        "momentum copy": len(state) + 2,
        "projector": 2,
        "predictor": 2,
        "classifier": 2,
        "queue": 1,
    }
    assert encoder.details["tensors"] == len(state)
    assert encoder.details["stem_padding"] == 2
    one = load_encoder(tmp_path / "solo.ckpt", stem_padding=1)
    np.testing.assert_allclose(one.encode(images), expected(state, images, 1), atol=1e-4)
    assert one.fingerprint != encoder.fingerprint


def test_moco(tmp_path, images):
    state = weights()
    contents = {
        "arch": "resnet18",
        "state_dict": {
            **renamed(state, "module.encoder_q."),
            **extra("module.encoder_q.fc."),
            **renamed(weights(seed=1), "module.encoder_k."),
            **extra("module.encoder_k.fc."),
            "module.queue": torch.ones(4, 4),
            "module.queue_ptr": torch.zeros(1),
        },
    }
    torch.save(contents, tmp_path / "moco.pth")
    encoder = load_encoder(str(tmp_path / "moco.pth"))
    np.testing.assert_allclose(encoder.encode(images), expected(state, images, 1), atol=1e-4)
    assert encoder.details["set_aside"] == {
        "classifier": 2,
        "momentum copy": len(state) + 2,
        "queue": 2,
    }


@pytest.mark.parametrize("prefix", ["encoder.f.", "f.", "module.f."])
def test_simclr_with_numbered_layers(tmp_path, images, prefix):
    state = weights()
    contents = renamed(state, prefix, SIMCLR) | extra("g.")
    torch.save(contents, tmp_path / "simclr.pth")
    encoder = load_encoder(tmp_path / "simclr.pth")
    np.testing.assert_allclose(encoder.encode(images), expected(state, images, 1), atol=1e-4)
    assert encoder.details["set_aside"] == {"projector": 2}


def test_numbered_layers_with_max_pooling_are_counted_from_there():
    table = {"conv1": "0", "bn1": "1"} | {f"layer{i}": str(3 + i) for i in (1, 2, 3, 4)}
    state = weights(small=False)
    match = match_resnet18(renamed(state, "encoder.", table), "x")
    assert set(match.weights) == set(state)


def test_short_cuts_under_their_other_name(tmp_path, images):
    state = weights()
    contents = {f"encoder.{k.replace('downsample', 'shortcut')}": v for k, v in state.items()}
    save_file(contents, tmp_path / "supcon.safetensors")
    encoder = load_encoder(tmp_path / "supcon.safetensors")
    np.testing.assert_allclose(encoder.encode(images), expected(state, images, 1), atol=1e-4)


def test_the_imagenet_stem_at_a_chosen_resolution(tmp_path):
    state = weights(small=False)
    torch.save({"state_dict": state | {"fc.weight": torch.ones(9, 32)}}, tmp_path / "r18.pth")
    encoder = load_encoder(tmp_path / "r18.pth", resolution=64)
    images = np.random.default_rng(0).integers(0, 256, (2, 3, 64, 64), dtype=np.uint8)
    got = encoder.encode(images)
    mean, std = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
    np.testing.assert_allclose(got, expected(state, images, 3, mean, std), atol=1e-4)
    assert load_encoder(tmp_path / "r18.pth").resolution == 224
    with pytest.raises(ValueError, match="7x7"):
        load_encoder(tmp_path / "r18.pth", stem_padding=1)


def test_counters_of_batches_may_be_missing(tmp_path, images):
    state = {k: v for k, v in weights().items() if "num_batches" not in k}
    torch.save(state, tmp_path / "old.pth")
    got = load_encoder(tmp_path / "old.pth").encode(images)
    np.testing.assert_allclose(got, expected(state, images, 1), atol=1e-4)


# -------------------------------------------------------------------- refused


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda s: s | {"backbone.extra.weight": torch.ones(1)}, "backbone.extra.weight"),
        (lambda s: s | {"decoder.weight": torch.ones(1)}, "no known head: decoder.weight"),
        (
            lambda s: {k: v for k, v in s.items() if k != "backbone.layer3.1.bn2.bias"},
            "lacks 1 tensors of ResNet-18: layer3.1.bn2.bias",
        ),
        (
            lambda s: s | {"backbone.layer1.0.conv1.weight": torch.ones(4, 4, 5, 5)},
            r"layer1.0.conv1.weight \(4, 4, 5, 5\) instead of \(4, 4, 3, 3\)",
        ),
        (lambda s: {"backbone.patch.weight": torch.ones(1)}, "holds no ResNet-18"),
    ],
)
def test_a_tensor_too_many_or_too_few_is_named(tmp_path, change, message):
    torch.save({"state_dict": change(renamed(weights(), "backbone."))}, tmp_path / "x.ckpt")
    with pytest.raises(ValueError, match=message):
        load_encoder(tmp_path / "x.ckpt")


class Evil:
    def __reduce__(self):
        return (print, ("code ran",))


def test_code_in_a_checkpoint_is_not_run(tmp_path, capsys):
    torch.save({"state_dict": weights(), "hyper": Evil()}, tmp_path / "evil.ckpt")
    with pytest.raises(ValueError, match="cannot be read without running code"):
        load_encoder(tmp_path / "evil.ckpt")
    assert "code ran" not in capsys.readouterr().out


@pytest.mark.parametrize("content", [b"", b"not a checkpoint", pickle.dumps([1, 2])])
def test_damaged_files_give_one_clear_error_line(tmp_path, content):
    (tmp_path / "x.pth").write_bytes(content)
    with pytest.raises(ValueError, match=r"x\.pth") as error:
        load_encoder(tmp_path / "x.pth")
    assert "\n" not in str(error.value)


def test_a_missing_file_and_one_without_tensors(tmp_path):
    with pytest.raises(OSError, match="there is no checkpoint"):
        load_encoder(tmp_path / "none.ckpt")
    torch.save({"epoch": 3}, tmp_path / "empty.ckpt")
    with pytest.raises(ValueError, match="no state_dict"):
        load_encoder(tmp_path / "empty.ckpt")
