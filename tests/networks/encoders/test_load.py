"""The front door, callables, and libraries that may be missing."""

import sys
import types

import numpy as np
import pytest
import torch
from torch import nn

from unbend.networks import Encoder, load_encoder
from unbend.networks.encoders import mirror_few


@pytest.fixture
def images():
    return np.random.default_rng(0).integers(0, 256, (5, 3, 8, 8), dtype=np.uint8)


def means(batch):
    return batch.mean((2, 3))


def test_a_function_gets_rgb_in_the_unit_range(images):
    encoder = load_encoder(means)
    np.testing.assert_allclose(encoder.encode(images), images.mean((2, 3)) / 255, rtol=1e-5)
    np.testing.assert_allclose(encoder.encode(images / 255.0), images.mean((2, 3)) / 255, rtol=1e-5)
    assert encoder.dim == 3
    assert encoder.resolution is None
    assert not encoder.cacheable  # its name does not tell it from others


def test_a_function_with_a_fingerprint_can_be_kept():
    def first(batch):
        return batch.mean((2, 3))

    first.fingerprint = "means, version 1"
    encoder = load_encoder(first)
    assert encoder.cacheable
    first.fingerprint = "means, version 2"
    assert load_encoder(first).fingerprint != encoder.fingerprint


def test_a_module_is_known_by_its_weights_and_left_alone(images):
    module = nn.Sequential(nn.Flatten(), nn.BatchNorm1d(192), nn.Linear(192, 7)).train()
    encoder = load_encoder(module)
    again = load_encoder(module)
    assert encoder.fingerprint == again.fingerprint
    assert encoder.cacheable
    encoder.encode(images)
    assert module.training
    assert all(p.requires_grad for p in module.parameters())
    assert module[1].num_batches_tracked == 0
    with torch.no_grad():
        expected = module.eval()(torch.from_numpy(images) / 255).numpy()
    np.testing.assert_allclose(encoder.encode(images), expected, atol=1e-5)
    with torch.no_grad():
        module[2].bias += 1
    assert load_encoder(module).fingerprint != encoder.fingerprint


def test_precision_changes_the_key_but_not_the_fingerprint(images):
    module = nn.Sequential(nn.Flatten(), nn.Linear(192, 7))
    plain, half = load_encoder(module), load_encoder(module, precision="bf16")
    assert plain.fingerprint == half.fingerprint
    assert plain.cache_key != half.cache_key
    assert half.encode(images).dtype == np.float32
    np.testing.assert_allclose(half.encode(images), plain.encode(images), atol=0.05)


def test_mean_and_std_can_be_given(images):
    encoder = load_encoder(means, mean=(0.5, 0.5, 0.5), std=(2.0, 2.0, 2.0))
    expected = (images.mean((2, 3)) / 255 - 0.5) / 2
    np.testing.assert_allclose(encoder.encode(images), expected, atol=1e-6)
    assert encoder.fingerprint != load_encoder(means).fingerprint


@pytest.mark.parametrize(
    ("encoder", "options", "error", "message"),
    [
        ("nonsense", {}, ValueError, "no encoder is called 'nonsense'; take lite0, lite2"),
        (3, {}, TypeError, "must be a name, a path or a callable, got int"),
        (means, {"pooling": "cls"}, ValueError, "for Hugging Face models"),
        (means, {"stem_padding": 1}, ValueError, "for ResNet-18 checkpoints"),
        (means, {"resolution": 0}, ValueError, "must be an integer >= 1, got 0"),
        (means, {"precision": "8"}, ValueError, "must be one of 32, bf16, got '8'"),
        (means, {"device": "abacus"}, ValueError, "'abacus' is not available"),
        ("lite2@64", {"resolution": 32}, ValueError, "disagree"),
    ],
)
def test_bad_arguments_give_one_clear_error_line(encoder, options, error, message):
    with pytest.raises(error, match=message) as caught:
        load_encoder(encoder, **options)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("images", "message"),
    [
        (np.zeros((2, 3, 8, 8), dtype=np.int32), "uint8 or float"),
        (np.full((2, 3, 8, 8), 2.0), r"must lie in \[0, 1\], got 2 to 2"),
        (np.full((2, 3, 8, 8), np.nan), r"must lie in \[0, 1\]"),
        (np.zeros((2, 8, 8, 3), dtype=np.uint8), "1 or 3 channels, got 8"),
        (np.zeros((2, 8), dtype=np.uint8), r"must be \(n, h, w\)"),
    ],
)
def test_bad_images_give_one_clear_error_line(images, message):
    with pytest.raises(ValueError, match=message):
        load_encoder(means).encode(images)


def test_maps_and_nonsense_of_a_callable_are_rejected(images):
    with pytest.raises(ValueError, match="one vector per image"):
        load_encoder(lambda x: x).encode(images)
    with pytest.raises(ValueError, match="returned NaN"):
        load_encoder(lambda x: x.mean((2, 3)) * float("nan")).encode(images)


def test_no_images_give_no_rows():
    assert load_encoder(means).encode(np.zeros((0, 3, 8, 8), dtype=np.uint8)).shape == (0, 3)


# -------------------------------------------------------------------- libraries


class TinyClassifier(nn.Module):
    def __init__(self, classes=4):
        super().__init__()
        self.body = nn.Conv2d(3, 5, 3)
        self.fc = nn.Linear(5, classes) if classes else nn.Identity()

    def forward(self, x):
        return self.fc(self.body(x).mean((2, 3)))


@pytest.fixture
def timm(monkeypatch):
    library, data = types.ModuleType("timm"), types.ModuleType("timm.data")

    def create_model(name, pretrained, num_classes):
        assert pretrained
        if name != "tiny":
            raise RuntimeError(f"Unknown model ({name})")
        return TinyClassifier(num_classes)

    def resolve_data_config(args, model):
        return {
            "input_size": (3, 16, 16),
            "mean": (0.5,) * 3,
            "std": (0.25,) * 3,
            "interpolation": "bicubic",
            "crop_pct": 0.8,
        }

    library.create_model, data.resolve_data_config = create_model, resolve_data_config
    monkeypatch.setitem(sys.modules, "timm", library)
    monkeypatch.setitem(sys.modules, "timm.data", data)


@pytest.mark.usefixtures("timm")
def test_timm_brings_its_preprocessing(images):
    encoder = load_encoder("timm:tiny")
    assert isinstance(encoder, Encoder)
    assert (encoder.name, encoder.resolution, encoder.dim) == ("timm:tiny", 16, 5)
    assert encoder.preprocess.crop == 0.8
    x = encoder.preprocess(torch.from_numpy(images))
    np.testing.assert_allclose(encoder.encode(images), encoder.module(x).numpy(), atol=1e-5)
    with pytest.raises(ValueError, match="timm has no pre-trained model 'other'"):
        load_encoder("timm:other")


def test_torchvision_loses_its_classifier(monkeypatch):
    library, models = types.ModuleType("torchvision"), types.ModuleType("torchvision.models")
    recipe = types.SimpleNamespace(
        crop_size=[24],
        resize_size=[32],
        mean=[0.4, 0.4, 0.4],
        std=[0.2, 0.2, 0.2],
        interpolation=types.SimpleNamespace(value="bilinear"),
    )
    default = types.SimpleNamespace(transforms=lambda: recipe)
    models.get_model_weights = lambda name: types.SimpleNamespace(DEFAULT=default)
    models.get_model = lambda name, weights: TinyClassifier()
    monkeypatch.setitem(sys.modules, "torchvision", library)
    monkeypatch.setitem(sys.modules, "torchvision.models", models)
    encoder = load_encoder("torchvision:tiny")
    assert encoder.dim == 5
    assert encoder.preprocess.interpolation == "bilinear"
    assert encoder.preprocess.crop == 0.75


@pytest.mark.parametrize("library", ["timm", "torchvision"])
def test_a_missing_library_gives_one_clear_error_line(monkeypatch, library):
    monkeypatch.setitem(sys.modules, library, None)
    for name in [name for name in sys.modules if name.startswith(f"{library}.")]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(ImportError, match=f"pip install {library}") as error:
        load_encoder(f"{library}:resnet18")
    assert "\n" not in str(error.value)


def test_a_mirror_adds_the_vector_of_the_mirror_image(images):
    """The mean of both; a picture and its mirror image have the same."""
    module = nn.Sequential(nn.Flatten(), nn.Linear(192, 7), nn.Tanh())
    plain = load_encoder(module)
    both = plain.mirrored()
    turned = np.ascontiguousarray(images[..., ::-1])
    expected = (plain.encode(images) + plain.encode(turned)) / 2
    assert np.abs(expected - plain.encode(images)).max() > 0.05
    np.testing.assert_allclose(both.encode(images), expected, atol=1e-6)
    np.testing.assert_allclose(both.encode(turned), expected, atol=1e-6)
    assert both.name == f"{plain.name}+mirror"
    assert both.cache_key != plain.cache_key
    assert both.mirrored() is both
    assert not plain.mirror


def test_only_auto_means_a_mirror_and_only_for_few_images(images):
    plain = load_encoder(means)
    assert mirror_few(plain, "auto", 10_000).mirror
    assert mirror_few(plain, "auto", 10_001) is plain
    assert mirror_few(plain, "lite2", 10) is plain
    assert mirror_few(plain, plain, 10) is plain
