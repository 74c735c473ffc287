"""The files of a run: written from what fit computed, and equal to what a later pass finds."""

import csv

import numpy as np
import pytest

from unbend import MLC, load
from unbend.workflows import cluster

QUICK = {"pretrain.max_steps": 3, "stage2.max_steps": 3}


@pytest.fixture
def vectors(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 5)) + np.repeat(np.eye(3, 5) * 9, 30, axis=0)
    np.save(tmp_path / "x.npy", X)
    return tmp_path / "x.npy"


def test_a_run_on_all_samples_encodes_none_of_them_after_training(vectors, tmp_path, monkeypatch):
    def refuse(self, X):
        raise AssertionError("the samples of the fit were encoded again")

    monkeypatch.setattr(MLC, "_encode", refuse)
    cluster(vectors, out=tmp_path / "run", n_clusters=3, settings=QUICK)
    assert (tmp_path / "run" / "report.html").is_file()


@pytest.mark.parametrize("train_on", ["all", 60])
def test_the_files_agree_with_the_saved_model(vectors, tmp_path, train_on):
    cluster(vectors, out=tmp_path / "run", n_clusters=3, settings=QUICK, train_on=train_on)
    X = np.load(vectors)
    found = load(tmp_path / "run" / "model").assess(X)
    with open(tmp_path / "run" / "labels.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [int(row["cluster"]) for row in rows] == found.labels.tolist()
    written = [row["probability"] for row in rows]
    assert written == [f"{p:.6f}" for p in found.probabilities.max(axis=1)]
    assert [row["outlier_score"] for row in rows] == [f"{s:.6f}" for s in found.outlier_score]
    features = np.load(tmp_path / "run" / "features.npy")
    np.testing.assert_array_equal(features, found.Z.astype(np.float32))
