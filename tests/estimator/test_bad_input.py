"""Invalid calls, each with its one-line error."""

import numpy as np
import pytest
import torch

from unbend import MLC, load

RNG = np.random.default_rng(0)
X = RNG.normal(size=(30, 4))
IMAGES = RNG.integers(0, 255, (30, 8, 8), dtype=np.uint8)
FAST = {"pretrain_epochs": 1, "epochs": 1, "settings": {"pretrain.min_steps": 2}}


def _with(value, at=(3, 1)):
    broken = X.copy()
    broken[at] = value
    return broken


WRONG_PARAMETERS = [
    ({"n_clusters": 0}, "`n_clusters` of MLC must be an integer >= 1 or 'auto', got 0"),
    ({"n_clusters": -3}, "`n_clusters` of MLC must be an integer >= 1 or 'auto', got -3"),
    ({"n_clusters": 2.5}, "`n_clusters` of MLC must be an integer >= 1 or 'auto', got 2.5"),
    ({"n_clusters": "many"}, "`n_clusters` of MLC must be an integer >= 1 or 'auto', got 'many'"),
    ({"n_clusters": True}, "`n_clusters` of MLC must be an integer >= 1 or 'auto', got True"),
    ({"n_clusters": 31}, "n_clusters=31 of MLC must be at most n_samples=30"),
    ({"preset": "papr"}, "`preset` of MLC must be one of auto, paper, .* got 'papr'"),
    ({"dim": 0}, "`dim` of MLC must be an integer from 1 to 65536, got 0; try 64"),
    ({"backbone": "vgg"}, "`backbone` of MLC must be one of auto, resnet18, .* got 'vgg'"),
    ({"backbone": "convnet"}, "backbone 'convnet' needs images .* got vectors of width 4"),
    ({"n_views": 0}, "`n_views` of MLC must be an integer from 1 to 1000, got 0; try 2"),
    ({"n_views": 1}, "stage 1 compares views of a sample and needs n_views >= 2, got 1"),
    ({"n_neighbors": -1}, "`n_neighbors` of MLC must be an integer >= 0, got -1"),
    (
        {"pretrain": "magic"},
        "`pretrain` of MLC must be one of tcr, byol, moco, simclr, swav, vicreg, none or the "
        "directory of an encoder, got 'magic'; try 'tcr'",
    ),
    ({"pretrain_epochs": -1}, "`pretrain_epochs` of MLC must be an integer >= 0, got -1"),
    ({"epochs": 1.5}, "`epochs` of MLC must be an integer >= 0, got 1.5"),
    ({"batch_size": 1}, "`batch_size` of MLC must be an integer >= 2, got 1"),
    ({"eta": 0.0}, "`eta` of MLC must be from 0.002 to 10, or 'auto', got 0.0; try 0.175"),
    ({"eta": float("nan")}, "`eta` of MLC must be from 0.002 to 10, or 'auto', got nan"),
    ({"eps_sq": -0.1}, "`eps_sq` of MLC must be > 0, got -0.1; try 0.1"),
    ({"train_backbone": "yes"}, "`train_backbone` of MLC must be True or False, got 'yes'"),
    ({"settings": {"stage2.etta": 1}}, "unknown setting 'stage2.etta'; known here: eps_sq, epochs"),
    ({"settings": {"stage2.lr": -1}}, "setting 'stage2.lr' must be > 0, got -1"),
    (
        {"settings": {"pretrain.optimizer": "sdg"}},
        "'pretrain.optimizer' must be one of lars, adam, sgd",
    ),
    ({"settings": 3}, "`settings` of MLC must be a dict, got 3"),
    (
        {"max_clusters": 2},
        "`max_clusters` of MLC must be an integer >= 3 or None, got 2; leave it out",
    ),
    ({"n_clusters": "auto", "max_clusters": 29}, "max_clusters=29 of MLC must be at most .* = 28"),
    ({"eta": 0.3, "settings": {"stage2.eta": 0.2}}, "setting 'stage2.eta' is given twice"),
    ({"settings": {"pretrain": 1}}, "'pretrain' is not a single setting; write it like"),
    (
        {"settings": {"views.augmentation.crop_scale": 1}},
        "'views.augmentation.crop_scale' must be 2",
    ),
    (
        {"settings": {"stage2.train_backbone": "no"}},
        "'stage2.train_backbone' must be True or False",
    ),
    ({"settings": {"preset": "x"}}, "unknown setting 'preset'"),
    ({"label_method": "exact"}, "`label_method` of MLC must be one of auto, dense, .* 'exact'"),
    ({"device": "tpu9"}, "`device` 'tpu9' is not available; use one of cpu"),
    ({"precision": "bf16-true"}, "`precision` of MLC must be one of 32-true, .* got 'bf16-true'"),
    ({"random_state": -1}, "`random_state` of MLC must be an integer >= 0"),
    ({"random_state": 2**70}, "`random_state` of MLC must be an integer >= 0 below"),
    ({"random_state": "x"}, "`random_state` of MLC must be an integer >= 0 .* got 'x'"),
    ({"verbose": -1}, "`verbose` of MLC must be an integer >= 0, got -1"),
]

WRONG_SAMPLES = [
    (_with(np.nan), "Input X contains NaN in 1 of 30 rows, the first is 3; remove them, or call"),
    (_with(np.inf), "Input X contains infinity in 1 of 30 rows"),
    (X[:1], "Found array with 1 sample"),
    (X[:0], "Found array with 0 sample"),
    (X[:, :0], "Found array with 0 feature"),
    (X[:, 0], "Expected 2D array, got 1D array instead"),
    (X + 1j, "Complex data not supported"),
    (np.array([["a", "b"], ["c", "d"]]), "could not convert string to float"),
    (
        X[None, None, None],
        "X must have 2 dimensions .* or 3 or 4 .* got shape \\(1, 1, 1, 30, 4\\)",
    ),
    (np.arange(600.0), r"got 1D array instead: X has shape \(600,\). Reshape your data"),
    (IMAGES[:1], "Found array with 1 sample"),
    (IMAGES[:, :3, :3], "images must be at least 4 pixels wide and high, got \\(3, 3\\)"),
    (
        np.zeros((30, 8, 8, 4)),
        "images must have 1 or 3 channels, got 8; if the last axis, 4",
    ),
    (np.zeros((30, 2, 8, 8)), "images must have 1 or 3 channels, got 2; convert to gray or RGB"),
    (np.full((30, 8, 8), np.nan), "X contains NaN in 30 of 30 images, the first is 0; remove them"),
    (IMAGES.astype(complex), "X must hold real numbers, got dtype complex128"),
    (IMAGES.astype(str), "X must hold real numbers, got dtype <U3"),
]


@pytest.mark.parametrize(("parameters", "message"), WRONG_PARAMETERS)
def test_invalid_parameters_raise_with_value_and_remedy(parameters, message):
    """A wrong parameter stops fit before any training."""
    with pytest.raises(ValueError, match=message):
        MLC(**{"n_clusters": 3, **FAST, **parameters}).fit(X)


@pytest.mark.parametrize(("samples", "message"), WRONG_SAMPLES)
def test_invalid_samples_raise(samples, message):
    """Samples that cannot be clustered raise with the reason."""
    with pytest.raises(ValueError, match=message):
        MLC(n_clusters=2, **FAST).fit(samples)


@pytest.fixture(scope="module")
def on_vectors():
    return MLC(n_clusters=2, random_state=0, **FAST).fit(X)


@pytest.fixture(scope="module")
def on_images():
    return MLC(n_clusters=2, random_state=0, **FAST).fit(IMAGES)


def test_new_samples_of_another_kind_are_rejected(on_vectors, on_images):
    """The error of predict says what the model was fitted on."""
    with pytest.raises(ValueError, match="X has 5 features, but MLC is expecting 4 features"):
        on_vectors.predict(np.zeros((2, 5)))
    with pytest.raises(ValueError, match="but the model was fitted on vectors of width 4"):
        on_vectors.predict(IMAGES)
    with pytest.raises(ValueError, match="but the model was fitted on images of shape"):
        on_images.predict(X)
    with pytest.raises(ValueError, match=r"samples of shape .1, 9, 9., but the model was fitted"):
        on_images.predict(np.zeros((2, 9, 9), np.uint8))
    with pytest.raises(ValueError, match="dtype float64, but the model was fitted on uint8"):
        on_images.predict(IMAGES / 255)


@pytest.mark.parametrize("method", ["predict", "predict_proba", "transform", "outlier_score"])
def test_an_unfitted_model_says_so(method):
    """Nothing works before fit."""
    with pytest.raises(ValueError, match="This MLC instance is not fitted yet"):
        getattr(MLC(), method)(X)


def test_saving_and_loading_refuse_what_is_not_a_model(on_vectors, tmp_path):
    """Foreign files are neither overwritten nor read."""
    with pytest.raises(ValueError, match="not fitted yet"):
        MLC().save(tmp_path / "m")
    (tmp_path / "letter.txt").write_text("dear")
    with pytest.raises(ValueError, match=r"it holds other files \('letter.txt'\)"):
        on_vectors.save(tmp_path)
    with pytest.raises(ValueError, match="it is a file; name a directory"):
        on_vectors.save(tmp_path / "letter.txt")
    with pytest.raises(ValueError, match=r"is not a saved model: model.safetensors is missing"):
        load(tmp_path)
    assert (tmp_path / "letter.txt").read_text() == "dear"


def test_labels_at_refuses_more_clusters_than_there_are(on_vectors):
    """The tree can only merge."""
    with pytest.raises(ValueError, match="`k` of labels_at must be an integer from 1 to 2"):
        on_vectors.labels_at(3)


def test_tensors_are_checked_like_arrays():
    """A tensor with NaN raises like an array with NaN."""
    with pytest.raises(ValueError, match="Input X contains NaN"):
        MLC(n_clusters=2, **FAST).fit(torch.full((10, 3), torch.nan))
