"""A backbone from disk: every tensor accounted for, and MLC(pretrain=PATH)."""

import numpy as np
import pytest
import torch
from tests.pretrain import killed

from unbend import MLC, load
from unbend.algorithm import train_encoder
from unbend.begin import begin
from unbend.config import NetworkConfig
from unbend.devices import make_fabric
from unbend.networks import build_network, save_encoder
from unbend.pretrain import METHODS, load_backbone
from unbend.sources import load_named

SHAPE = (1, 8, 8)
SMALL = NetworkConfig(backbone="convnet", width=4, dim=8, head_width=16)
QUICK = {"network.head_width": 16, "pretrain.head_steps": 2, "stage2.min_steps": 0}


def saved(path, seed: int = 7):
    network = build_network(SHAPE, SMALL, seed)
    network.normalize_like(torch.rand(20, *SHAPE, generator=torch.Generator().manual_seed(seed)))
    save_encoder(network, path, shape=SHAPE, config=SMALL)
    return network


def test_every_tensor_of_the_backbone_and_its_normalisation_come_along(tmp_path):
    there, here = saved(tmp_path), build_network(SHAPE, SMALL, 0)
    heads = {k: v.clone() for k, v in here.state_dict().items() if "head" in k}
    load_backbone(here, tmp_path)
    for name, value in there.backbone.state_dict().items():
        assert torch.equal(here.backbone.state_dict()[name], value), name
    torch.testing.assert_close(here.mean, there.mean)
    torch.testing.assert_close(here.std, there.std)
    assert all(torch.equal(here.state_dict()[k], v) for k, v in heads.items())


@pytest.mark.parametrize(
    ("shape", "config"),
    [
        (SHAPE, NetworkConfig(backbone="convnet", width=8, dim=8)),
        ((3, 8, 8), SMALL),
        ((1, 32, 32), SMALL),
        (SHAPE, NetworkConfig(backbone="resnet18", width=4, dim=8)),
    ],
)
def test_a_backbone_that_does_not_fit_is_rejected(tmp_path, shape, config):
    saved(tmp_path)
    network = build_network(shape, config, 0)
    before = {k: v.clone() for k, v in network.state_dict().items()}
    with pytest.raises(ValueError, match=r"is a 'convnet' of width 4 for samples of shape \(1, 8"):
        load_backbone(network, tmp_path)
    assert all(torch.equal(network.state_dict()[k], v) for k, v in before.items())


def test_a_directory_without_an_encoder_is_rejected(tmp_path):
    with pytest.raises(ValueError, match=r"holds no encoder: encoder\.json is missing"):
        load_backbone(build_network(SHAPE, SMALL, 0), tmp_path)


def test_mlc_uses_the_saved_backbone_unchanged(tmp_path):
    """The network's form comes from the encoder; the backbone rests in both stages."""
    network = saved(tmp_path / "encoder")
    X = load_named("digits").X[:60]
    model = MLC(3, pretrain=tmp_path / "encoder", epochs=1, random_state=0, settings=QUICK).fit(X)
    assert model.config_.network.width == 4
    for name, value in network.backbone.state_dict().items():
        assert torch.equal(model._network.backbone.state_dict()[name], value), name
    stages = {row["stage"] for row in model.history_}
    assert {"stage 1 head", "stage 2"} <= stages
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(load(tmp_path / "model").predict(X), model.predict(X))


@pytest.mark.parametrize("method", ["simclr", "moco", "vicreg", "byol", "swav"])
def test_mlc_runs_every_method(method):
    X = load_named("digits").X[:60]
    settings = {**QUICK, "pretrain.min_steps": 0, "network.width": 4, "pretrain.batch_size": 30}
    model = MLC(3, pretrain=method, pretrain_epochs=1, epochs=1, random_state=0, settings=settings)
    model.fit(X)
    assert len(model.labels_) == 60
    stages = [row["stage"] for row in model.history_]
    assert stages.count("stage 1") == 2
    assert stages.count("stage 1 head") == 2


def test_invalid_pretrain_raises():
    with pytest.raises(ValueError, match="`pretrain` of MLC must be one of tcr, byol, moco"):
        MLC(3, pretrain="no/such/directory").fit(np.zeros((9, 4)))


@pytest.mark.parametrize("method", METHODS)
def test_half_precision_stays_close_to_full(method):
    """Losses are computed in 32 bits even where the network is not: the first ones agree."""
    found = {}
    for precision in ("32-true", "bf16-mixed"):
        fabric = make_fabric("cpu", precision)
        trained = train_encoder(
            begin(killed.samples(), killed.config(method), seed=3, fabric=fabric)
        )
        found[precision] = [row["loss"] for row in trained.history]
        assert all(np.isfinite(found[precision]))
        assert trained.network.mean.dtype == torch.float32
    assert found["bf16-mixed"] != found["32-true"]  # it was really used
    assert found["bf16-mixed"][0] == pytest.approx(found["32-true"][0], rel=0.1, abs=0.1)
