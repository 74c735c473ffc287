"""``unbend pretrain`` as a function: what it writes, resumes, refuses."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from unbend.baselines import SCAN, SPICE
from unbend.baselines.heads.session import Session
from unbend.networks import load_encoder
from unbend.networks.encoders.unbend_checkpoint import read_saved_encoder
from unbend.progress import Tick
from unbend.sources import load_named
from unbend.workflows.pretrain import pretrain

QUICK = {
    "network.width": 4,
    "network.dim": 8,
    "network.head_width": 16,
    "pretrain.min_steps": 0,
    "pretrain.batch_size": 30,
    "pretrain.head_steps": 2,
    "views.n_neighbors": 3,
}
IMAGES = load_named("digits").X[:60]


def train(out: Path, X: object = IMAGES, **options: object):
    settings = {**QUICK, **options.pop("settings", {})}
    return pretrain(X, out=out, **{"epochs": 2, "method": "byol", "settings": settings, **options})


def weights(out: Path) -> dict[str, torch.Tensor]:
    return read_saved_encoder(out).tensors


def test_files_of_an_encoder(tmp_path):
    result = train(tmp_path / "encoder")
    there = {p.name for p in (tmp_path / "encoder").iterdir()}
    assert there == {
        "encoder.safetensors",
        "encoder.json",
        "history.csv",
        "config.json",
        "manifest.json",
    }
    config = json.loads((tmp_path / "encoder" / "config.json").read_text())
    assert config["pretrain"]["method"] == "byol"
    assert config["network"]["backbone"] == "convnet"
    rows = (tmp_path / "encoder" / "history.csv").read_text().splitlines()
    assert len(rows) == 1 + 4 + 2 == 1 + result.n_steps
    manifest = json.loads((tmp_path / "encoder" / "manifest.json").read_text())
    assert manifest["n_samples"] == result.n_samples == 60
    assert result.to_dict()["encoder"] == str(tmp_path / "encoder")
    assert "60 images, 6 steps of byol" in result.summary()


def test_the_encoder_is_one_for_cluster(tmp_path):
    """What load_encoder computes is the backbone's output in evaluation mode."""
    train(tmp_path)
    h = load_encoder(tmp_path, device="cpu").encode(IMAGES)
    assert h.shape == (60, 16 * 4)
    assert np.isfinite(h).all()
    assert h.std(0).max() > 0


@pytest.mark.parametrize("method", ["simclr", "moco", "swav"])
def test_peers_start_from_the_directory(tmp_path, method, monkeypatch):
    """SPICE-Self keeps the backbone, so it ends as the method left it; SCAN trains it further."""
    monkeypatch.setattr(Session, "min_steps", 1)
    train(tmp_path, method=method)
    saved = weights(tmp_path)
    options = {"backbone": tmp_path, "epochs": 1, "random_state": 0}
    still = SPICE(3, hidden=4, passes=1, semi_epochs=0, **options).fit(IMAGES)
    moved = SCAN(3, n_heads=1, self_label_epochs=0, **options).fit(IMAGES)
    for model, same in ((still, True), (moved, False)):
        state = model._model.trunk.backbone.state_dict()
        assert {*state} <= {*saved}
        assert all(torch.equal(value, saved[name]) for name, value in state.items()) == same
        np.testing.assert_array_equal(model.predict(IMAGES), model.labels_)


def test_true_labels_are_scored_and_change_nothing(tmp_path):
    seen: list[Tick] = []
    large = {"epochs": 1, "settings": {"pretrain.batch_size": 450}}
    with_labels = train(tmp_path / "a", "digits", progress=seen.append, **large)
    without = train(tmp_path / "b", load_named("digits").X, **large)
    assert without.scores is None
    knn = with_labels.scores["knn_accuracy"]
    assert 0.9 < knn["pixels"] <= 1
    assert 0.3 < knn["trained"] <= 1
    assert json.loads((tmp_path / "a" / "metrics.json").read_text()) == with_labels.scores
    assert all("kNN" in tick.values for tick in seen if tick.stage.startswith("stage"))
    left, right = weights(tmp_path / "a"), weights(tmp_path / "b")
    assert all(torch.equal(left[k], right[k]) for k in left)


def test_resume_after_interrupt_is_bit_equal(tmp_path):
    train(tmp_path / "whole")
    calls = 0

    def interrupt(tick: Tick) -> None:
        nonlocal calls
        calls += 1
        if calls == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(tmp_path / "cut", progress=interrupt)
    assert (tmp_path / "cut" / "checkpoints").is_dir()
    with pytest.raises(ValueError, match="unfinished run; pass --resume"):
        train(tmp_path / "cut")
    with pytest.raises(ValueError, match="resume with the same options"):
        train(tmp_path / "cut", resume=True, method="moco")
    train(tmp_path / "cut", resume=True)
    left, right = weights(tmp_path / "whole"), weights(tmp_path / "cut")
    assert all(torch.equal(left[k], right[k]) for k in left)
    assert not (tmp_path / "cut" / "checkpoints").exists()
    again = train(tmp_path / "cut", resume=True)  # nothing is left to do
    assert again.n_steps == 6


@pytest.mark.parametrize(
    ("X", "options", "words"),
    [
        (IMAGES, {"method": "dino"}, "`method` of pretrain must be one of tcr, byol"),
        (np.random.default_rng(0).random((20, 5)), {}, "holds vectors, and an encoder is trained"),
        (IMAGES, {"settings": {"pretrain.moco.ema": 2}}, r"'pretrain\.moco\.ema' must be from 0"),
        (IMAGES, {"preset": "large"}, "`preset` must be one of auto"),
    ],
)
def test_invalid_calls_raise_and_leave_no_files(tmp_path, X, options, words):
    with pytest.raises(ValueError, match=words):
        train(tmp_path / "encoder", X, **options)
    assert not (tmp_path / "encoder").exists()
