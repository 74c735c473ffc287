"""Backbones of our own as encoders."""

import json

import numpy as np
import pytest
import torch

from unbend import MLC
from unbend.config import NetworkConfig
from unbend.networks import build_network, load_encoder, save_encoder

CONFIG = NetworkConfig(backbone="convnet", width=4, dim=8, head_width=8)


@pytest.fixture
def images():
    return np.random.default_rng(0).integers(0, 256, (6, 3, 12, 16), dtype=np.uint8)


def trained(images):
    network = build_network((3, 12, 16), CONFIG, seed=3)
    network.normalize_like(torch.from_numpy(images) / 255)
    for module in network.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.running_mean.normal_()
    return network.eval()


def test_a_saved_backbone_gives_its_h(tmp_path, images):
    network = trained(images)
    save_encoder(network, tmp_path / "own")
    encoder = load_encoder(tmp_path / "own")
    with torch.no_grad():
        expected = network.embed(torch.from_numpy(images) / 255).numpy()
    np.testing.assert_allclose(encoder.encode(images), expected, atol=1e-4)
    assert encoder.dim == expected.shape[1]
    assert encoder.resolution == (12, 16)
    assert load_encoder(tmp_path / "own").fingerprint == encoder.fingerprint


@pytest.mark.parametrize("kind", [np.uint8, np.float32])
def test_the_backbone_of_a_fitted_model(tmp_path, images, kind):
    X = images if kind == np.uint8 else (images / 255).astype(np.float32)
    model = MLC(2, random_state=0, backbone="convnet", pretrain_epochs=0, epochs=0).fit(X)
    model.save(tmp_path / "model")
    with torch.no_grad():
        expected = model._network.embed(model._scaling.apply(X)).numpy()
    got = load_encoder(str(tmp_path / "model")).encode(X)
    np.testing.assert_allclose(got, expected, atol=1e-4)


def test_invalid_directory_error_gives_the_reason(tmp_path, images):
    save_encoder(trained(images), tmp_path / "own")
    values = json.loads((tmp_path / "own" / "encoder.json").read_text())
    (tmp_path / "own" / "encoder.json").write_text(json.dumps(values | {"version": 99}))
    with pytest.raises(ValueError, match="version 99"):
        load_encoder(tmp_path / "own")
    (tmp_path / "own" / "encoder.json").write_text(json.dumps(values | {"fingerprint": "0"}))
    with pytest.raises(ValueError, match="do not belong"):
        load_encoder(tmp_path / "own")
    (tmp_path / "own" / "encoder.json").write_text("{")
    with pytest.raises(ValueError, match="damaged"):
        load_encoder(tmp_path / "own")
    (tmp_path / "own" / "encoder.json").write_text(json.dumps(values))
    (tmp_path / "own" / "encoder.safetensors").unlink()
    with pytest.raises(ValueError, match=r"encoder\.safetensors is missing"):
        load_encoder(tmp_path / "own")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="holds no encoder"):
        load_encoder(tmp_path / "empty")


@pytest.mark.parametrize("name", [3, None, [], {}, 1e300, True, "x", "module:x"])
def test_a_backbone_that_is_no_name_is_rejected(tmp_path, images, name):
    save_encoder(trained(images), tmp_path / "own")
    path = tmp_path / "own" / "encoder.json"
    values = json.loads(path.read_text())
    values["backbone"]["backbone"] = name
    path.write_text(json.dumps(values))
    with pytest.raises(ValueError, match="backbone"):
        load_encoder(tmp_path / "own")


def test_models_of_vectors_and_other_resolutions_are_rejected(tmp_path, images):
    vectors = np.random.default_rng(0).normal(size=(20, 5))
    MLC(2, random_state=0, pretrain_epochs=0, epochs=0).fit(vectors).save(tmp_path / "v")
    with pytest.raises(ValueError, match="model of vectors of width 5"):
        load_encoder(tmp_path / "v")
    with pytest.raises(ValueError, match="only a network on images"):
        save_encoder(build_network((5,), NetworkConfig(backbone="mlp"), 0), tmp_path / "w")
    save_encoder(trained(images), tmp_path / "own")
    with pytest.raises(ValueError, match="the size it was trained on"):
        load_encoder(tmp_path / "own", resolution=64)
