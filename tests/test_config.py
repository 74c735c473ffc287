"""The paper's numbers, and configs on their way to disk and back."""

import json

import numpy as np
import pytest

from unbend import MLC
from unbend.config import PRESETS, Config, preset_for
from unbend.parameters import check_config

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


def test_the_paper_preset_runs():
    """ResNet-18, LARS and Augmentation 1 on a handful of colour images, a few steps."""
    images = np.random.default_rng(0).integers(0, 255, (24, 3, 16, 16), dtype=np.uint8)
    short = {"pretrain.max_steps": 2, "stage2.max_steps": 2, "network.head_width": 64}
    model = MLC(3, preset="paper", random_state=0, settings=short).fit(images)
    assert model.config_.pretrain.optimizer == "lars"
    assert [row["stage"] for row in model.history_] == ["stage 1"] * 2 + ["stage 2"] * 2
    assert np.isfinite(model.transform(images)).all()
