"""Files that are not images: the run succeeds, lists them, and labels the others as usual."""

import csv

import pytest
from tests.generators.folders import fill, spoil

from unbend.workflows import cluster

QUICK = {
    "pretrain.epochs": 1,
    "pretrain.min_steps": 2,
    "pretrain.max_steps": 2,
    "stage2.epochs": 1,
    "stage2.max_steps": 2,
    "pretrain.batch_size": 64,
    "stage2.batch_size": 64,
}


def rows(path):
    with open(path, encoding="utf-8-sig", newline="") as file:
        return [tuple(row.values()) for row in csv.DictReader(file)]


@pytest.mark.parametrize("n", [200, pytest.param(2000, marks=pytest.mark.slow)])
def test_labels_of_the_others_are_those_without_them(tmp_path, monkeypatch, n):
    folder = fill(tmp_path / "photos", n)
    options = {"n_clusters": 3, "encoder": "none", "image_size": 8, "settings": QUICK}
    options |= {"workers": 0, "report": False}
    monkeypatch.setenv("UNBEND_CACHE", str(tmp_path / "cache"))
    before = cluster(folder, out=tmp_path / "before", **options)
    reasons = spoil(folder)
    monkeypatch.setenv("UNBEND_CACHE", str(tmp_path / "other cache"))
    after = cluster(folder, out=tmp_path / "after", **options)
    assert (before.n_samples, before.n_broken) == (n, 0)
    assert (after.n_samples, after.n_broken) == (n, len(reasons)) == (n, 20)
    # Cluster, probability and outlier score to the last digit.
    assert rows(after.run / "labels.csv") == rows(before.run / "labels.csv")
    assert len({row[1] for row in rows(after.run / "labels.csv")}) > 1
    listed = dict(rows(after.run / "broken.csv"))
    assert set(listed) == set(reasons)
    for name, words in reasons.items():
        assert listed[name]
        assert words in listed[name]
