"""The experiment on labels: its tables, on blobs and short fits."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.cluster.hierarchy import is_monotonic, is_valid_linkage, linkage
from scipy.spatial.distance import squareform
from sklearn.datasets import make_blobs
from tests.generators.subspaces import union_of_subspaces

from unbend.estimator import MLC
from unbend.experiments import experiment
from unbend.experiments.labels import measure, run
from unbend.experiments.labels.former import (
    former_number,
    membership_tree,
    merge_by_priced_length,
)
from unbend.labels.hierarchy import cut_tree
from unbend.labels.subspaces import second_moments


@pytest.fixture
def blobs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    X, y = make_blobs(
        [30] * 5, centers=9 * np.eye(5, 12), n_features=12, cluster_std=0.6, random_state=0
    )
    monkeypatch.setenv("UNBEND_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(run, "_load", lambda name: (X, y.astype(np.int64)))
    short = partial(MLC, pretrain_epochs=4)
    monkeypatch.setattr(measure, "MLC", lambda *k, **more: short(*k, **{"epochs": 2, **more}))


@pytest.mark.usefixtures("blobs")
def test_every_part_has_its_table(tmp_path: Path) -> None:
    found = experiment("labels")(data="blobs", seeds=1, out=tmp_path / "out", verbose=False)
    merge, count, confidence, outliers = found.tables
    assert all(table.rows[0][0] == "blobs, n = 150" for table in found.tables)
    assert all(len(table.rows[0]) == len(table.columns) for table in found.tables)
    assert merge.rows[0][1] == "1.000"  # asking for k
    assert merge.rows[0][-2:] == ["1.000", "1.000"]
    assert merge.notes[-1].endswith("on 1 of 1 problems; some cut might be on 1.")
    true, before, now, interval, near, inside, same = count.rows[0][1:]
    assert (true, now, near, inside, same) == ("5", "5", "1", "1", "1")
    assert 2 <= int(before) <= 15
    assert interval.startswith("5-")
    assert "Near in 1 of 1 fits (100%)" in count.notes[-2]
    assert 0 <= float(confidence.rows[0][-1]) < 0.3
    assert float(outliers.rows[0][2]) <= 0.15  # of 36 fresh samples
    foreign = [float(word) for word in outliers.rows[0][5].split()]
    assert len(foreign) == len(measure.WAYS)
    assert foreign[0] > 0.95
    names = {path.name for path in (tmp_path / "out").glob("*.md")}
    assert names == {f"labels-{part}-blobs.md" for part in run.PARTS}


@pytest.mark.usefixtures("blobs")
def test_a_second_run_uses_what_the_first_one_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*given: object, **more: object) -> None:
        raise AssertionError("fitted again")

    first = run.run(data="blobs", methods="count", seeds=1, verbose=False)
    monkeypatch.setattr(measure, "MLC", refuse)
    again = run.run(data="blobs", methods="count", seeds=1, verbose=False)
    assert again.tables[0].rows == first.tables[0].rows


def test_an_unknown_part_is_refused() -> None:
    with pytest.raises(ValueError, match="labels has no part 'x'; known: merge, count"):
        run.run(methods="x")


def test_the_former_rule_counts_orthogonal_groups() -> None:
    C = torch.nn.functional.normalize(
        torch.eye(4, 16).repeat(60, 1) + 0.02 * torch.randn(240, 16), dim=1
    )
    assert former_number(C, C) == 4


def test_priced_length_joins_the_halves_of_a_subspace() -> None:
    """Three subspaces, each cut in two at random, are found again."""
    data = union_of_subspaces(600, 3, seed=0)
    halves = 2 * data.y + np.arange(len(data.y)) % 2
    moments, counts = second_moments(torch.from_numpy(data.Z), torch.from_numpy(halves), 6)
    priced = merge_by_priced_length(moments, counts, 0.1, 3)
    assert priced.tolist() == [0, 0, 1, 1, 2, 2]


def memberships(k: int, each: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(k), each)
    p = rng.dirichlet(np.full(k, 0.5), len(labels))
    return p, labels


def test_membership_tree_equals_scipy_where_clusters_are_of_one_size() -> None:
    """SciPy's average linkage weighs leaves, ours samples: the same for equal sizes."""
    k, each = 9, 20
    p, labels = memberships(k, each)
    shared = np.zeros((k, k))
    for row, label in zip(p, labels, strict=True):
        shared[label] += row
    mean = (shared + shared.T) / 2 / each**2
    top = mean.max()
    distance = top - mean
    np.fill_diagonal(distance, 0)
    wanted = linkage(squareform(distance, checks=False), "average")
    found = membership_tree(p, labels, k)
    np.testing.assert_array_equal(found[:, [0, 1, 3]], wanted[:, [0, 1, 3]])
    np.testing.assert_allclose(found[:, 2], 1 / (1 + k * each * (top - wanted[:, 2])))
    assert is_valid_linkage(found)
    assert is_monotonic(found)


def test_a_splinter_goes_to_the_cluster_that_it_belongs_to() -> None:
    labels = np.repeat([0, 1, 2], [50, 50, 2])
    p = np.full((102, 3), 0.01)
    p[np.arange(102), labels] = 0.9
    p[labels == 2] = [0.05, 0.45, 0.5]
    assert cut_tree(membership_tree(p, labels, 3), 2).tolist() == [0, 1, 1]


def test_clusters_that_share_nothing_are_merged_all_the_same() -> None:
    found = membership_tree(np.eye(4), np.arange(4), 4)
    assert is_valid_linkage(found)
    np.testing.assert_array_equal(found[:, 2], 1.0)
