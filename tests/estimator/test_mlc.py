"""The estimator as its users use it."""

import pickle

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.datasets import load_digits, make_blobs
from sklearn.metrics import adjusted_rand_score
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from unbend import MLC, load
from unbend.exceptions import CollapseWarning, UnbendWarning

CENTERS = [[0, 0, 0], [8, 0, 0], [0, 8, 0], [0, 0, 8]]
X, Y = make_blobs(160, centers=CENTERS, random_state=0)
DIGITS = load_digits().images.astype(np.uint8) * 15
SHORT = {"pretrain_epochs": 5, "epochs": 5, "settings": {"pretrain.min_steps": 20}}


@pytest.fixture(scope="module")
def fitted():
    return MLC(n_clusters=4, random_state=0).fit(X)


def test_separated_blobs_are_found(fitted):
    """Four far blobs are four clusters."""
    assert adjusted_rand_score(Y, fitted.labels_) == 1.0
    assert fitted.n_clusters_ == 4
    assert fitted.n_features_in_ == 3


def test_predict_labels_new_samples(fitted):
    """Probabilities sum to one, their arg max is the prediction, the prediction is right."""
    new, truth = make_blobs(80, centers=CENTERS, random_state=1)
    probability = fitted.predict_proba(new)
    np.testing.assert_allclose(probability.sum(1), 1, atol=1e-6)
    np.testing.assert_array_equal(probability.argmax(1), fitted.predict(new))
    assert adjusted_rand_score(truth, fitted.predict(new)) == 1.0
    assert (fitted.predict(X) == fitted.labels_).mean() >= 0.99


def test_features_lie_on_the_sphere(fitted):
    """transform returns unit vectors of the preset's dimension."""
    Z = fitted.transform(X)
    assert Z.shape == (160, fitted.config_.network.dim)
    np.testing.assert_allclose(np.linalg.norm(Z, axis=1), 1, atol=1e-5)


def test_outlier_scores_are_in_range_and_stored_threshold_is_a_quantile(fitted):
    """Scores lie in (0, 1]; about one training sample in a hundred exceeds the threshold."""
    scores = fitted.outlier_score(X)
    assert ((scores > 0) & (scores <= 1)).all()
    assert np.mean(scores > fitted.outlier_threshold_) <= 0.03


def test_fitted_samples_are_assessed_without_encoding_them_again(fitted, monkeypatch):
    """The outputs kept by fit are bit-equal to encoding the same samples again."""
    again = fitted.assess(X)
    monkeypatch.setattr(type(fitted._network), "encode", None)  # calling it would fail
    kept = fitted.assess_fitted()
    for one, other in zip(kept, again, strict=True):
        np.testing.assert_array_equal(one, other)
        assert one.dtype == other.dtype
    part = fitted.assess_fitted(slice(10, 20))
    np.testing.assert_array_equal(part.Z, again.Z[10:20])


@pytest.mark.parametrize("samples", [X, X.astype(np.float32), DIGITS[:120]])
def test_fit_transform_is_transform_after_fit(samples):
    model = MLC(n_clusters=4, random_state=0, **SHORT)
    Z = model.fit_transform(samples)
    np.testing.assert_array_equal(Z, model.transform(samples))
    assert Z.dtype == model.transform(samples).dtype


def test_fit_outputs_are_neither_saved_nor_pickled(fitted, tmp_path):
    fitted.save(tmp_path / "model")
    for model in (pickle.loads(pickle.dumps(fitted)), load(tmp_path / "model")):
        assert not model.holds_fit_output
        with pytest.raises(ValueError, match="does not hold the samples of fit; pass them"):
            model.assess_fitted()
        np.testing.assert_array_equal(model.predict(X), fitted.predict(X))


def test_history_has_both_stages(fitted):
    """Each step is recorded with its rates."""
    stages = {row["stage"] for row in fitted.history_}
    assert stages == {"stage 1", "stage 2", "stage 2, eta 2"}
    last = fitted.history_[-1]
    assert last["delta_R"] == pytest.approx(last["R"] - last["R_c"])
    first = next(row for row in fitted.history_ if row["stage"] == last["stage"])
    assert last["delta_R"] > first["delta_R"]


def test_merge_tree_and_labels_at(fitted):
    """Cutting the tree gives nested clusterings."""
    assert fitted.merge_tree_.shape == (3, 4)
    for k in (1, 2, 3, 4):
        labels = fitted.labels_at(k)
        assert len(np.unique(labels)) == k
        for j in range(4):  # nested: no cluster is torn apart
            assert len(np.unique(labels[fitted.labels_ == j])) == 1


def test_number_of_clusters_is_found():
    """Without k the four blobs are still four."""
    model = MLC(random_state=0).fit(X)
    assert model.n_clusters_ == 4
    assert model.model_selection_ is not None


def test_same_seed_same_labels_and_no_global_state_touched():
    """Everything random comes from random_state."""
    torch_state, numpy_state = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    a, b = (MLC(4, random_state=3, **SHORT).fit(DIGITS[:200]) for _ in range(2))
    np.testing.assert_array_equal(a.labels_, b.labels_)
    np.testing.assert_array_equal(a.transform(DIGITS[:9]), b.transform(DIGITS[:9]))
    assert torch.equal(torch_state, torch.get_rng_state())
    np.testing.assert_array_equal(numpy_state, np.random.get_state()[1])  # noqa: NPY002


@pytest.mark.parametrize(
    "images",
    [
        DIGITS[:60],
        DIGITS[:60, None],
        DIGITS[:60] / 255.0,
        np.repeat(DIGITS[:60, None], 3, axis=1),
        torch.from_numpy(DIGITS[:60]),
        torch.from_numpy(DIGITS[:60]).float(),
        np.pad(DIGITS[:60], ((0, 0), (0, 0), (2, 3))),
    ],
    ids=["gray", "channel", "float", "colour", "tensor", "float tensor", "not square"],
)
def test_images_of_every_kind(images):
    """(n, h, w) and (n, c, h, w), uint8 and float, array and tensor."""
    model = MLC(3, random_state=0, **SHORT).fit(images)
    assert model.labels_.shape == (60,)
    assert model.transform(images[:5]).shape == (5, 16)
    assert (model.predict(images) == model.labels_).mean() >= 0.99


def test_gray_images_are_the_same_in_every_container():
    """Shape and container of the input do not change the result."""
    plain, channel, tensor = (
        MLC(3, random_state=0, **SHORT).fit(images).labels_
        for images in (DIGITS[:60], DIGITS[:60, None], torch.from_numpy(DIGITS[:60]))
    )
    np.testing.assert_array_equal(plain, channel)
    np.testing.assert_array_equal(plain, tensor)


def test_save_and_load_round_trip(fitted, tmp_path):
    """A loaded model answers bit for bit like the saved one, and can be saved over itself."""
    fitted.save(tmp_path / "model")
    fitted.save(tmp_path / "model")
    again = load(tmp_path / "model")
    np.testing.assert_array_equal(again.labels_, fitted.labels_)
    np.testing.assert_array_equal(again.predict_proba(X), fitted.predict_proba(X))
    np.testing.assert_array_equal(again.transform(X), fitted.transform(X))
    np.testing.assert_array_equal(again.outlier_score(X), fitted.outlier_score(X))
    np.testing.assert_array_equal(again.labels_at(2), fitted.labels_at(2))
    assert again.config_ == fitted.config_
    assert again.history_ == fitted.history_
    assert {p.name for p in (tmp_path / "model").iterdir()} == {"model.safetensors", "model.json"}


def test_pipeline_clone_grid_search_and_set_output():
    """The estimator works with scikit-learn's tools."""
    pipeline = make_pipeline(StandardScaler(), MLC(4, random_state=0, **SHORT))
    assert pipeline.fit_predict(X).shape == (160,)
    assert clone(pipeline).get_params()["mlc__n_clusters"] == 4
    search = GridSearchCV(MLC(4, random_state=0, **SHORT), {"dim": [8, 16]}, cv=2).fit(X)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    names = pipeline[-1].set_output(transform="default").get_feature_names_out()
    assert list(names[:2]) == ["mlc0", "mlc1"]


@pytest.mark.parametrize(
    "samples",
    [
        X[:5],
        np.hstack([X, np.ones((160, 2))]),
        np.repeat(X[:8], 10, axis=0),
        np.zeros((40, 3)),
        X * 1e6,
        X * 1e-6,
        X + 1e4,
        X[:, :1],
    ],
    ids=["few", "constant columns", "copies", "all equal", "large", "tiny", "far", "one column"],
)
def test_awkward_samples_give_a_result(samples):
    """Sizes, scales and copies that break naive code."""
    model = MLC(2, random_state=0, **SHORT).fit(samples)
    assert model.labels_.shape == (len(samples),)
    assert np.isfinite(model.transform(samples)).all()


@pytest.mark.parametrize("factor", [1e-3, 1e3])
def test_scale_of_the_samples_does_not_matter(factor):
    """Vectors are measured in their own unit."""
    a, b = (MLC(4, random_state=0, **SHORT).fit(x).labels_ for x in (X, factor * X))
    assert adjusted_rand_score(a, b) == 1.0


def test_huge_learning_rate_recovers_with_a_warning():
    """Collapse and non-finite numbers are detected, undone and reported."""
    wild = {"stage2.lr": 1e4, "pretrain.min_steps": 40}
    with pytest.warns(CollapseWarning, match="stage 2: .* restored step"):
        model = MLC(4, random_state=0, pretrain_epochs=5, settings=wild).fit(X)
    assert np.isfinite(model.transform(X)).all()
    assert len(np.unique(model.labels_)) == 4


@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed"])
def test_each_precision_finds_the_blobs(precision):
    """Lower precision in the network still gives finite rates and the right blobs."""
    model = MLC(4, random_state=0, precision=precision).fit(X)
    assert adjusted_rand_score(Y, model.labels_) > 0.95


def test_trainable_backbone_moves_and_frozen_backbone_does_not():
    """Stage 2 touches the backbone only when asked."""

    def backbone(train, epochs):
        model = MLC(
            4, random_state=0, pretrain_epochs=3, epochs=epochs, train_backbone=train,
            settings={"stage2.eta": 0.175, "labels.join": "none"},
        ).fit(X)  # fmt: skip
        return torch.cat([p.detach().ravel() for p in model._network.backbone.parameters()])

    before, frozen, trained = backbone(False, 0), backbone(False, 3), backbone(True, 3)
    assert torch.equal(before, frozen)
    assert not torch.equal(before, trained)


def test_a_failed_or_interrupted_refit_leaves_the_model_as_it_was(monkeypatch):
    """All or nothing: an interrupt in the middle of training changes no answer."""
    model = MLC(3, random_state=0, **SHORT).fit(DIGITS[:60])
    before = model.predict_proba(DIGITS[:60])

    def interrupted(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr("unbend.estimator.mlc.solve", interrupted)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X)
    np.testing.assert_array_equal(model.predict_proba(DIGITS[:60]), before)
    fresh = MLC(3)
    with pytest.raises(KeyboardInterrupt):
        fresh.fit(X)
    with pytest.raises(ValueError, match="not fitted yet"):
        fresh.predict(X)


def test_masks_are_scaled_by_their_range_and_other_ranges_are_noticed():
    """uint8 images of 0 and 1 are not divided by 255; pixels of another range warn."""
    masks = (DIGITS[:60] > 100).astype(np.uint8)
    assert MLC(3, random_state=0, **SHORT).fit(masks)._scaling.scale == 1
    model = MLC(3, random_state=0, **SHORT).fit(DIGITS[:60] / 255)
    with pytest.warns(UnbendWarning, match="X has pixels from 0 to 240, but the model was fitted"):
        model.predict(DIGITS[:60].astype(float))


def test_config_says_what_was_used():
    """The config holds the resolved backbone and number of neighbours, not "auto"."""
    config = MLC(3, random_state=0, **SHORT).fit(DIGITS[:60]).config_
    assert config.network.backbone == "convnet"
    assert config.views.n_neighbors == 3
    assert MLC(3, n_neighbors=9, random_state=0, **SHORT).fit(X).config_.views.n_neighbors == 9


def test_double_precision_survives_the_disk(tmp_path):
    """A 64-bit image model answers the same after loading."""
    model = MLC(3, random_state=0, precision="64-true", **SHORT).fit(DIGITS[:60])
    model.save(tmp_path / "m")
    np.testing.assert_array_equal(load(tmp_path / "m").predict(DIGITS[:60]), model.labels_)
