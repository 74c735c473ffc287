"""onnxruntime computes what torch computes, and steps aside where it cannot."""

import copy
import os
import pickle
import subprocess
import sys

import numpy as np
import pytest
import torch
from torch import nn

from unbend.networks.encoders import Encoder, Preprocessing, load_encoder
from unbend.networks.encoders.onnx import OnnxNetwork, onnx_installed, to_onnx

pytest.importorskip("efficientnet_lite_pytorch")
onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")


class Padded(nn.Conv2d):
    """Pads by itself first, as the convolutions of EfficientNet-Lite do."""

    def __init__(self, *arguments, pads, **options):
        super().__init__(*arguments, **options)
        self.static_padding = nn.ZeroPad2d(pads)

    def forward(self, x):
        return super().forward(self.static_padding(x))


class Small(nn.Module):
    """Every layer that is known, with strides, groups, dilation and uneven padding."""

    def __init__(self):
        super().__init__()
        self.stem = Padded(3, 8, 3, stride=2, bias=False, pads=(0, 1, 2, 3))
        self.depth = nn.Conv2d(8, 8, (3, 5), padding=(1, 2), groups=8)
        self.wide = nn.Conv2d(8, 8, 3, padding=2, dilation=2)
        self.relu6, self.relu, self.same = nn.ReLU6(), nn.ReLU(), nn.Identity()

    def forward(self, x):
        x = self.relu6(self.stem(x))
        x = x + self.relu(self.depth(self.same(x)))
        return self.wide(x).mean((2, 3))


@pytest.fixture(scope="module")
def images():
    return np.random.default_rng(0).integers(0, 256, (7, 3, 40, 40), dtype=np.uint8)


def test_every_layer_against_torch():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        module, x = Small().eval(), torch.randn(3, 3, 17, 14)
    module.stem.weight.data.mul_(20)  # so that both ends of ReLU6 are reached
    stem = module.stem(x)
    assert (stem > 6).any()
    assert (stem < 0).any()
    network = OnnxNetwork(module, (17, 14))
    onnx.checker.check_model(onnx.load_from_string(network.graph), full_check=True)
    with torch.no_grad():
        torch.testing.assert_close(network(x), module(x), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["lite0@64", "lite0@75", "lite2@64"])
def test_the_encoders_are_the_same_in_both(name, images):
    """Also at a side for which "same" padding is uneven."""
    ours = load_encoder(name, device="cpu")
    theirs = load_encoder(name, device="cpu", engine="torch")
    assert (ours.engine, theirs.engine) == ("onnx", "torch")
    assert ours.cache_key == theirs.cache_key  # allowed only because of the next line
    got, expected = ours.encode(images), theirs.encode(images)
    assert np.abs(got - expected).max() <= 1e-4 * np.abs(expected).max()
    assert ours.dim == expected.shape[1]


def test_batches_of_any_size(images):
    encoder = load_encoder("lite0@64", device="cpu", engine="onnx")
    whole = encoder.encode(images, batch_size=7)
    for size in (3, 1, 5):
        np.testing.assert_allclose(encoder.encode(images, batch_size=size), whole, atol=1e-4)
    assert encoder.embed(torch.zeros(0, 3, 40, 40, dtype=torch.uint8)).shape == (0, 1280)


def test_copies_and_pickles_compute_the_same(images):
    network = load_encoder("lite0@40", device="cpu", engine="onnx").network
    x = torch.from_numpy(images).float() / 255
    expected = network(x)
    for twin in (copy.deepcopy(network), pickle.loads(pickle.dumps(network))):
        torch.testing.assert_close(twin(x), expected, rtol=0, atol=0)


def test_onnx_uses_as_many_threads_as_torch():
    network = OnnxNetwork(Small(), (16, 16))
    before = torch.get_num_threads()
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            network(torch.zeros(1, 3, 16, 16))
            options = network._session.get_session_options()
            assert options.intra_op_num_threads == threads
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("missing", ["onnx", "onnxruntime"])
def test_torch_is_used_without_onnx(monkeypatch, images, missing):
    expected = load_encoder("lite0@40", device="cpu", engine="onnx").encode(images)
    monkeypatch.setitem(sys.modules, missing, None)
    assert not onnx_installed()
    encoder = load_encoder("lite0@40", device="cpu")
    assert encoder.engine == "torch"
    assert encoder.network is encoder.module
    np.testing.assert_allclose(encoder.encode(images), expected, atol=1e-4)
    with pytest.raises(ImportError, match=r"unbend\[encoder\]"):
        load_encoder("lite0@40", device="cpu", engine="onnx")


def test_bf16_is_left_to_torch():
    assert load_encoder("lite0@40", device="cpu", precision="bf16").engine == "torch"
    with pytest.raises(ValueError, match="'cpu' with precision '32', got 'cpu' and 'bf16'"):
        load_encoder("lite0@40", device="cpu", precision="bf16", engine="onnx")


def test_invalid_options_are_rejected():
    with pytest.raises(ValueError, match="one of auto, torch, onnx, got 'fast'"):
        load_encoder("lite0@40", engine="fast")
    for engine in ("onnx", "fast"):
        with pytest.raises(ValueError, match=f"'auto' or 'torch' for .* got '{engine}'"):
            load_encoder(nn.Flatten(), engine=engine)
    assert load_encoder(nn.Flatten(), engine="torch").engine == "torch"


def test_an_unknown_layer_is_named_or_left_to_torch():
    module = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Hardswish(), nn.Flatten())
    with pytest.raises(ValueError, match="no ONNX is known for 'Hardswish'"):
        to_onnx(module, (8, 8))
    circular = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1, padding_mode="circular"))
    with pytest.raises(ValueError, match="no ONNX is known for padding"):
        to_onnx(circular, (8, 8))
    preprocess = Preprocessing((8, 8), (0.0,) * 3, (1.0,) * 3)
    encoder = Encoder("mine", module, preprocess, "id", device="cpu", engine="auto")
    assert encoder.engine == "torch"
    assert encoder.encode(np.zeros((2, 8, 8), np.uint8)).shape == (2, 144)
    with pytest.raises(ValueError, match="no ONNX is known for 'Hardswish'"):
        Encoder("mine", module, preprocess, "id", device="cpu", engine="onnx")


def test_nothing_is_reported_and_no_identifier_is_left(tmp_path):
    """Telemetry would write an identifier of the machine into the user's cache."""
    code = """
import numpy as np
from unbend.networks import load_encoder
print(load_encoder("lite0", engine="onnx").encode(np.zeros((1, 3, 64, 64), np.uint8)).shape)
"""
    own = ("ORT_DISABLE_TELEMETRY", "XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME")
    environment = {k: v for k, v in os.environ.items() if k not in own}
    environment["HOME"] = str(tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert [p for p in tmp_path.rglob("*") if p.is_file()] == []
