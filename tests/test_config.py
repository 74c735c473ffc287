"""The paper's numbers, and configs on their way to disk and back."""

import json

import numpy as np
import pytest

from unbend import MLC
from unbend.config import PARAMETERS, PRESETS, Config, check_config, preset_for, resolve, setting
from unbend.training import steps_of

PAPER = {  # Appendix "Details on Experiment Settings" and Augmentation 1
    "views.n_views": 2,
    "views.n_neighbors": 0,
    "views.augmentation.crop_scale": (0.04, 1.0),
    "views.augmentation.flip": 0.5,
    "views.augmentation.grayscale": 0.2,
    "views.augmentation.jitter": (0.4, 0.4, 0.4, 0.1),
    "views.augmentation.jitter_probability": 0.8,
    "views.augmentation.blur": 0.1,
    "views.augmentation.rotation": 0.0,
    "network.backbone": "resnet18",
    "network.dim": 128,
    "pretrain.method": "tcr",
    "pretrain.eps_sq": 0.2,
    "pretrain.optimizer": "lars",
    "pretrain.lr": 0.3,
    "pretrain.epochs": 1000,
    "pretrain.batch_size": 1024,
    "stage2.eps_sq": 0.1,
    "stage2.eta": 0.175,
    "stage2.batch_size": 1024,
    "stage2.lr": 1e-2,
    "stage2.momentum": 0.9,
    "stage2.weight_decay": 5e-4,
    "stage2.train_backbone": False,
}


def _get(config, name):
    for part in name.split("."):
        config = getattr(config, part)
    return config


@pytest.mark.parametrize(("name", "value"), PAPER.items())
def test_the_paper_preset_is_the_paper(name, value):
    """Every hyper-parameter that the paper prints."""
    assert _get(PRESETS["paper"], name) == value


def test_invariance_of_the_paper_preset_is_the_one_of_nmce():
    """30 beside R/2 is 60 beside R, at d = 128."""
    paper = PRESETS["paper"]
    assert paper.pretrain.invariance * paper.network.dim == 60


@pytest.mark.parametrize("name", PRESETS)
def test_presets_are_valid_and_survive_json(name):
    """What is saved beside a result rebuilds the same config."""
    config = PRESETS[name]
    check_config(config)
    assert Config.from_dict(json.loads(json.dumps(config.to_dict()))) == config


def test_overrides_name_unknown_settings():
    """A typing error is not ignored."""
    with pytest.raises(
        ValueError, match=r"unknown setting 'stage3.eta'; known here: views, network"
    ):
        Config().override({"stage3.eta": 1})
    with pytest.raises(ValueError, match=r"unknown setting 'etta' in config.stage2"):
        Config.from_dict({"stage2": {"etta": 1}})


def test_auto_preset_follows_the_shape():
    """Images and vectors have presets of their own."""
    assert preset_for((3, 32, 32)) == "images"
    assert preset_for((64,)) == "vectors"


def test_resolve_knows_shape_number_and_k():
    """Neighbours by n, backbone by shape, width and batch by k."""
    config = resolve((1, 8, 8), 100, 10)
    assert (config.preset, config.network.backbone) == ("images", "convnet")
    assert config.views.n_neighbors == 5
    assert (config.labels.join, config.stage2.eta, config.views.metric) == ("auto",) * 3
    assert [resolve((9,), 10_000, k).network.dim for k in (2, 10, 100, 300)] == [16, 20, 128, 300]
    assert [resolve((9,), 10_000, k).pretrain.batch_size for k in (2, 100, 300)] == [
        600,
        1000,
        1500,
    ]
    asked = resolve((1, 8, 8), 100, "auto", settings={"labels.join": "codes"})
    assert asked.labels.join == "codes"


@pytest.mark.parametrize("epochs", [1, 5, 500])
def test_epochs_that_were_asked_for_are_the_length(epochs):
    """No bound on the steps of a preset changes them."""
    config = resolve((4,), 600, 3, given={"stage2.epochs": epochs, "pretrain.epochs": epochs})
    assert steps_of(config.stage2, 600) == steps_of(config.pretrain, 600) == epochs


def test_resolve_goes_from_the_general_to_the_particular():
    """Preset, a method's own settings, parameters, dotted settings: the later wins."""
    own = {"adapted": {"stage2.eta": 0.2, "stage2.lr": 0.5}, "published": {"stage2.eta": 0.3}}
    config = resolve((4,), 50, 2, **own, given={"stage2.lr": 0.6}, settings={"network.dim": 5})
    assert (config.stage2.eta, config.stage2.lr, config.network.dim) == (0.2, 0.6, 5)
    assert resolve((4,), 50, 2, preset="paper", **own).stage2.eta == 0.3
    with pytest.raises(ValueError, match=r"setting 'stage2\.lr' is given twice"):
        resolve((4,), 50, 2, given={"stage2.lr": 1.0}, settings={"stage2.lr": 2.0})
    with pytest.raises(ValueError, match=r"setting 'stage2\.lr' must be > 0, got -1"):
        resolve((4,), 50, 2, settings={"stage2.lr": -1})
    with pytest.raises(ValueError, match="`preset` must be one of auto, paper"):
        resolve((4,), 50, 2, preset="papre")


def test_every_parameter_of_the_table_stands_for_a_setting():
    """With a rule of its own, so that a wrong value is named before training."""
    for name, targets in PARAMETERS.items():
        for target in targets:
            known = "rule" in setting(target).metadata
            assert known or name in ("backbone", "train_backbone"), target


def test_the_config_tells_how_labels_are_made():
    model = MLC("auto", max_clusters=7, label_method="blocks")
    labels = model._resolve((4,), 50).labels
    assert (labels.max_clusters, labels.method) == (7, "blocks")


def test_the_paper_preset_runs():
    """ResNet-18, LARS and Augmentation 1 on a handful of colour images, a few steps."""
    images = np.random.default_rng(0).integers(0, 255, (24, 3, 16, 16), dtype=np.uint8)
    short = {"pretrain.max_steps": 2, "stage2.max_steps": 2, "network.head_width": 64}
    model = MLC(3, preset="paper", random_state=0, settings=short).fit(images)
    assert model.config_.pretrain.optimizer == "lars"
    assert [row["stage"] for row in model.history_] == ["stage 1"] * 2 + ["stage 2"] * 2
    assert np.isfinite(model.transform(images)).all()
