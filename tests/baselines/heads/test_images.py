"""The image steps: from a backbone that stage 1 saved, on the project's augmentations."""

import hashlib

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

from unbend.algorithm import train_encoder
from unbend.baselines import GCC, NNM, SCAN, SPICE, IMCSwAV, load
from unbend.baselines.heads.session import Session
from unbend.begin import begin
from unbend.config import PRESETS
from unbend.devices import make_fabric
from unbend.metrics import clustering_accuracy
from unbend.networks import save_encoder
from unbend.samples import prepare

SHORT = {
    SCAN: {
        "n_heads": 2,
        "epochs": 15,
        "lr": 1e-3,
        "batch_size": 100,
        "self_label_epochs": 2,
        "threshold": 0.6,
    },
    GCC: {"n_heads": 2, "epochs": 15, "lr": 1e-3, "batch_size": 100},
    NNM: {"n_heads": 2, "epochs": 15, "lr": 1e-3, "batch_size": 100},
    IMCSwAV: {"epochs": 15, "hidden": 64, "batch_size": 100, "lr": 2e-3},
    SPICE: {
        "n_heads": 2,
        "hidden": 64,
        "epochs": 5,
        "passes": 3,
        "semi_epochs": 40,
        "batch_size": 100,
        "agreement": 0.5,
        "threshold": 0.6,
    },
}
STAGES = {
    SCAN: {"SCAN", "self-labelling"},
    GCC: {"GCC"},
    NNM: {"NNM"},
    IMCSwAV: {"IMC-SwAV"},
    SPICE: {"SPICE-Self", "SPICE-Semi"},
}


@pytest.fixture(autouse=True)
def few_steps(monkeypatch):
    monkeypatch.setattr(Session, "min_steps", 0)


@pytest.fixture(scope="module")
def digits():
    images, y = load_digits(n_class=3, return_X_y=True)
    return images.reshape(-1, 8, 8).astype(np.float32)[:300], y[:300]


@pytest.fixture(scope="module")
def backbone(digits, tmp_path_factory):
    """What ``unbend pretrain --method simclr`` leaves, after a few steps."""
    samples, _ = prepare(digits[0])
    config = PRESETS["images"].override(
        {
            "network.width": 8,
            "network.backbone": "convnet",
            "pretrain.method": "simclr",
            "pretrain.epochs": 30,
            "pretrain.head_steps": 1,
            "views.n_neighbors": 0,
        }
    )
    trained = train_encoder(begin(samples, config, seed=0, fabric=make_fabric("cpu")))
    place = tmp_path_factory.mktemp("simclr")
    save_encoder(trained.network, place)
    return place


@pytest.mark.parametrize("cls", list(SHORT))
def test_images_are_clustered_from_a_saved_backbone(cls, digits, backbone, tmp_path):
    """All steps run, far above chance (a third) on three digits; new images and disk as usual."""
    X, y = digits
    model = cls(3, backbone=backbone, random_state=0, **SHORT[cls]).fit(X)
    assert {row["stage"] for row in model.history_} == STAGES[cls]
    assert clustering_accuracy(y, model.labels_) > 0.7
    np.testing.assert_array_equal(model.predict(X), model.labels_)
    model.save(tmp_path / "model")
    back = load(tmp_path / "model")
    np.testing.assert_allclose(back.predict_proba(X), model.predict_proba(X), atol=1e-6)
    with pytest.raises(ValueError, match="fitted on"):
        model.predict(X.reshape(len(X), -1))


def test_the_same_seed_gives_the_same_labels_and_leaves_the_files_alone(digits, backbone):
    before = _hash(backbone)
    fits = [NNM(3, backbone=backbone, random_state=1, **SHORT[NNM]).fit(digits[0]) for _ in "ab"]
    np.testing.assert_array_equal(fits[0].labels_, fits[1].labels_)
    assert fits[0].history_ == fits[1].history_
    assert _hash(backbone) == before


def _hash(folder):
    files = sorted(folder.iterdir())
    return [hashlib.sha256(file.read_bytes()).hexdigest() for file in files]


def test_no_gradient_of_imc_clusters_reaches_the_encoder(digits, backbone, monkeypatch):
    """Without SwAV's loss the encoder stays as stage 1 left it."""
    from unbend.baselines.heads import imc

    monkeypatch.setattr(
        imc,
        "swapped_prediction",
        lambda scores, *_: 0 * torch.stack([s.sum() for s in scores]).sum(),
    )
    options = {**SHORT[IMCSwAV], "epochs": 1}
    model = IMCSwAV(3, backbone=backbone, random_state=0, **options)
    monkeypatch.setattr(imc.IMCSwAV, "_decay", 0.0)
    weights = _weights(model.fit(digits[0]))
    start = _weights(SPICE(3, backbone=backbone, random_state=0, **_SELF).fit(digits[0]))
    for name, weight in start.items():
        torch.testing.assert_close(weights[name], weight, rtol=0, atol=1e-6)


_SELF = {"n_heads": 1, "hidden": 8, "epochs": 1, "passes": 1, "semi_epochs": 0}


def _weights(model):
    return dict(model._model.trunk.backbone.named_parameters())


def test_spice_self_keeps_the_backbone_in_evaluation_mode(digits, backbone):
    """Neither weights nor the statistics of batch normalisation move."""
    from unbend.networks.encoders.unbend_checkpoint import read_saved_encoder

    model = SPICE(3, backbone=backbone, random_state=0, **_SELF).fit(digits[0])
    saved = read_saved_encoder(backbone).tensors
    for name, tensor in model._model.trunk.backbone.state_dict().items():
        torch.testing.assert_close(tensor, saved[name])


def test_a_backbone_for_other_images_is_rejected(backbone):
    with pytest.raises(ValueError, match=r"8, 8.*does not fit this network"):
        SCAN(2, backbone=backbone).fit(np.random.default_rng(0).random((10, 32, 32)))


def test_a_directory_without_an_encoder_is_rejected(tmp_path):
    with pytest.raises(ValueError, match="holds no encoder"):
        SCAN(2, backbone=tmp_path).fit(np.random.default_rng(0).random((10, 8, 8)))
