"""Images that the network sees as vectors of their pixels."""

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from sklearn.metrics import adjusted_rand_score, homogeneity_score

from unbend import MLC, load
from unbend.baselines import CPP
from unbend.begin import look_at
from unbend.deploy import export_onnx
from unbend.experiments.suite.synthetic import faces_under_light, lookalikes
from unbend.samples import prepare

K, SIDE = 12, 16


@pytest.fixture(scope="module")
def faces():
    """Aligned surfaces under changing light, as gray images: near nine-dimensional subspaces."""
    X, y = faces_under_light(K)
    images = 255 * (X - X.min()) / (X.max() - X.min())
    return images.round().astype(np.uint8).reshape(-1, SIDE, SIDE), y


@pytest.fixture(scope="module")
def fitted(faces):
    return MLC(K, random_state=0).fit(faces[0])


def test_aligned_images_become_vectors(faces, fitted):
    X, y = faces
    assert fitted.config_.preset == "vectors"
    assert fitted.neighbors_.metric.startswith("ridge:")
    assert fitted.config_.network.whiten > 0
    assert "pixels as vectors" in fitted.describe()
    assert adjusted_rand_score(y, fitted.labels_) > 0.75
    as_table = MLC(K, random_state=0).fit(X.reshape(len(X), -1).astype(float))
    assert adjusted_rand_score(as_table.labels_, fitted.labels_) > 0.9  # rounding aside, the same


def test_images_of_turning_objects_become_vectors():
    X, y = lookalikes(8)
    images = (255 * (X - X.min()) / (X.max() - X.min())).round().astype(np.uint8)
    model = MLC(8, random_state=0).fit(images.reshape(-1, 24, 24))
    assert model.config_.preset == "vectors"
    assert model.neighbors_.parts == 8
    assert model.neighbors_.reason().startswith("near neighbours")
    assert adjusted_rand_score(y, model.labels_) == 1
    assert model.config_.views.parts == 8
    kept = MLC(8, pretrain_epochs=1, epochs=0, random_state=0, settings={"views.parts": 0}).fit(X)
    assert kept.config_.views.parts == kept.neighbors_.parts == 0
    assert not kept.neighbors_.reason().startswith("near neighbours")
    counted = MLC(pretrain_epochs=1, epochs=0, random_state=0).fit(X)
    assert counted.n_clusters_ == counted.config_.views.parts == 8


def test_new_images_are_taken_in_their_shape(faces, fitted, tmp_path):
    X, _ = faces
    fitted.save(tmp_path / "model")
    again = load(tmp_path / "model")
    for model in (fitted, again):
        np.testing.assert_array_equal(model.predict(X), fitted.labels_)
        assert model.predict(X[0]).tolist() == [fitted.labels_[0]]
        np.testing.assert_allclose(model.outlier_score(X), fitted.outlier_score(X))
    with pytest.raises(ValueError, match=r"fitted on images of shape \(1, 16, 16\); reshape X"):
        again.predict(X.reshape(len(X), -1))
    path = export_onnx(again, tmp_path / "model.onnx").path
    assert path.stat().st_size > 0  # export compares the graph with the model


def test_handwriting_stays_images():
    X = load_digits().images
    samples, scaling = prepare(X)
    seen = look_at(samples, scaling, 10)
    assert seen.samples.shape == (1797, 1, 8, 8)
    assert seen.scaling == scaling
    assert seen.neighbors is not None
    assert seen.neighbors.metric == "euclidean"


def test_the_preset_vectors_takes_pixels_and_settings_of_images_keep_images(faces):
    samples, scaling = prepare(faces[0])
    taken = look_at(samples, scaling, K, preset="vectors")
    assert taken.samples.shape == (len(samples), SIDE**2)
    assert taken.neighbors is None  # begin chooses them, as for a table
    for asked in ("views.n_neighbors", "network.backbone", "pretrain.method"):
        assert look_at(samples, scaling, K, asked=[asked]).samples is samples
    assert look_at(samples, scaling, K, preset="images").samples is samples
    vectors = torch.rand(9, 4)
    assert look_at(vectors, prepare(vectors.numpy())[1], 2).samples is vectors


def test_deep_peers_see_what_mlc_sees(faces):
    X, _ = faces
    settings = {"pretrain.max_steps": 2, "stage2.max_steps": 2}
    peer = CPP(K, random_state=0, settings=settings).fit(X)
    assert peer.config_.preset == "vectors"
    assert peer.transform(X[:3]).shape == (3, peer.config_.network.dim)
    shown = MLC(K, random_state=0, preset="images", settings=settings).fit(X)
    assert shown.config_.network.backbone == "convnet"


def test_an_interrupted_fit_resumes_as_vectors(faces, tmp_path):
    X, _ = faces
    short = {"pretrain.max_steps": 4, "stage2.max_steps": 4}
    whole = MLC(K, random_state=0, settings=short).fit(X)

    def stop(tick):
        if (tick.stage, tick.done) == ("stage 2", 2):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        MLC(K, random_state=0, settings=short).fit(X, checkpoints=tmp_path, progress=stop)
    resumed = MLC(K, random_state=0, settings=short).fit(X, checkpoints=tmp_path)
    assert resumed.config_.preset == "vectors"
    assert resumed.history_ == whole.history_
    np.testing.assert_array_equal(resumed.labels_, whole.labels_)


@pytest.fixture(scope="module")
def from_table():
    """Of 600 digits in 20 groups, which their graph of neighbours does not show clearly."""
    return MLC(20, random_state=0).fit(load_digits().data[:600])


def test_vectors_of_pixels_are_seen_as_images(from_table):
    digits = load_digits()
    assert from_table.config_.preset == "images"
    assert from_table.config_.network.backbone == "convnet"
    assert "the 64 columns are pixels of images of 8 x 8" in from_table.describe()
    assert homogeneity_score(digits.target[:600], from_table.labels_) > 0.85
    as_images = MLC(20, random_state=0).fit(digits.images[:600])
    assert adjusted_rand_score(as_images.labels_, from_table.labels_) > 0.8  # rounding aside


def test_new_vectors_of_pixels_stay_vectors(from_table, tmp_path):
    X = load_digits().data[:600]
    from_table.save(tmp_path / "model")
    again = load(tmp_path / "model")
    np.testing.assert_array_equal(again.predict(X), from_table.labels_)
    np.testing.assert_allclose(again.predict_proba(X), from_table.predict_proba(X))
    assert again.predict(X[:1]).tolist() == [from_table.labels_[0]]
    with pytest.raises(ValueError, match="fitted on vectors of width 64"):
        again.predict(load_digits().images)
    path = export_onnx(again, tmp_path / "model.onnx").path  # compares the graph with the model
    assert path.stat().st_size > 0


def test_vectors_stay_vectors_where_asked_or_linear_or_clear():
    clear, scaling = prepare(load_digits().data)
    seen = look_at(clear, scaling, 10)
    assert seen.samples is clear
    assert seen.neighbors is not None
    assert seen.neighbors.cut < 0.01
    samples, scaling = prepare(load_digits().data[:600])
    assert look_at(samples, scaling, 20).samples.shape == (600, 1, 8, 8)
    assert look_at(samples, scaling, 20, preset="vectors").samples is samples
    assert look_at(samples, scaling, 20, asked=["network.backbone"]).samples is samples
    flat = faces_under_light(20)[0].astype(float)
    linear = look_at(*prepare(flat), 20)
    assert linear.samples.shape == (800, 256)
    assert linear.neighbors is not None
    assert linear.neighbors.metric.startswith("ridge:")
