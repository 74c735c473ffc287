"""The judge of labellings against plain loops, and its invariances."""

import math

import numpy as np
import pytest
import torch
from tests.generators.subspaces import union_of_subspaces

from unbend.functional import coding_rate
from unbend.labels.judge import Judge
from unbend.samples import nearest_neighbors


@pytest.fixture(scope="module")
def problem():
    data = union_of_subspaces(150, 3, d=12, noise=0.2, imbalance=3, seed=0)
    Z, y = torch.from_numpy(data.Z).float(), torch.from_numpy(data.y)
    X = 5 * Z @ torch.randn(12, 20, generator=torch.Generator().manual_seed(1)) + 3
    return Z, X, y, nearest_neighbors(X, 4)


def explained(X, labels, k):
    whole = coding_rate(X, 0.3)
    parts = [X[labels == q] for q in range(k)]
    return float(1 - sum(len(p) / len(X) * coding_rate(p, 0.3) for p in parts if len(p)) / whole)


def test_shares_equal_their_definitions(problem):
    Z, X, y, neighbors = problem
    shares = Judge(Z, X, "euclidean", neighbors).shares(y, 3)
    assert shares["features"] == pytest.approx(explained(Z.double(), y, 3), abs=1e-5)
    # The rate does not change under rotation, so an SVD serves as well as the judge's eigenvectors.
    centred = (X - X.mean(0)).double()
    U, s, _ = torch.linalg.svd(centred, full_matrices=False)
    rows = (U * s)[:, :12]
    rows = rows / rows.square().sum(1).mean().sqrt()
    means = torch.stack([rows[y == q].mean(0) for q in range(3)])
    parts = [rows[y == q] - means[q] for q in range(3)]
    rate = sum(len(part) / 150 * coding_rate(part, 0.3) for part in parts)
    affine = float(1 - rate / coding_rate(rows, 0.3))
    assert shares["samples"] == pytest.approx((explained(rows, y, 3) + affine) / 2, abs=1e-5)
    inside, whole = np.zeros(3), np.zeros(3)
    linked = {frozenset((i, j)) for i, row in enumerate(neighbors.tolist()) for j in row}
    for i, j in map(tuple, linked):
        for end, other in ((i, j), (j, i)):
            whole[y[end]] += 1
            inside[y[end]] += y[end] == y[other]
    assert shares["graph"] == pytest.approx((inside / whole).mean())


def test_score_is_the_weighted_geometric_mean(problem):
    Z, X, y, neighbors = problem
    judge = Judge(Z, X, "euclidean", neighbors)
    s = judge.shares(y, 3)
    expected = (s["samples"] ** 2 * s["features"] * s["graph"]) ** (1 / 4)
    assert judge.score(y, 3) == pytest.approx(expected)


def test_without_samples_features_and_the_graph_of_their_ten_nearest_judge(problem):
    Z, _, y, _ = problem
    alone = Judge(Z)
    shares = alone.shares(y, 3)
    near = nearest_neighbors(Z, 10)
    given = Judge(Z, neighbors=near).shares(y, 3)
    assert shares == pytest.approx(given)
    assert set(shares) == {"features", "graph"}
    assert alone.score(y, 3) == pytest.approx(math.sqrt(shares["features"] * shares["graph"]))
    whole = coding_rate(Z.double(), 1.0)
    parts = [Z[y == q].double() for q in range(3)]
    rate = sum(len(part) / 150 * coding_rate(part, 1.0) for part in parts)
    assert shares["features"] == pytest.approx(float(1 - rate / whole), abs=1e-5)


def test_a_part_of_the_rows_has_its_own_graph(problem, monkeypatch):
    """With more samples than are looked at, labels of these rows and of all give the same score."""
    Z, _, y, _ = problem
    monkeypatch.setattr("unbend.labels.judge._ROWS", 90)
    judge = Judge(Z)
    assert len(judge.rows) == 90
    assert judge.shares(y[judge.rows], 3) == pytest.approx(judge.shares(y, 3))
    own = Judge(Z[judge.rows]).shares(y[judge.rows], 3)
    assert judge.shares(y, 3) == pytest.approx(own)


def test_separate_parts_of_the_graph_of_the_samples(problem):
    near, far = torch.arange(40.0)[:, None].repeat(1, 5), 1000.0
    X = torch.cat([near, near[:30] + far, near[:3] + 2 * far])
    neighbors = nearest_neighbors(X, 2)
    two, three = (torch.arange(73) >= 40).long(), (torch.arange(73) >= 40).long()
    three = three + (torch.arange(73) >= 70).long()
    judge = Judge(X, X, "euclidean", neighbors)
    assert judge.separates(two, 2)
    assert judge.separates(three, 3)  # 3 samples are an eighth of the mean size
    crossing = two.clone()
    crossing[35:40] = 1
    assert not judge.separates(crossing, 2)
    assert judge.separates((torch.arange(73) >= 70).long(), 2) is False  # too small a part
    assert not judge.separates(torch.zeros(73, dtype=torch.long), 1)
    Z, _, y, _ = problem
    assert not Judge(Z).separates(y, 3)  # the graph of trained features does not count


@pytest.mark.parametrize(("columns", "names"), [(3, set()), (4, {"samples"})])
def test_samples_of_few_columns_do_not_judge(problem, columns, names):
    Z, X, y, neighbors = problem
    shares = Judge(Z, X[:, :columns], "euclidean", neighbors).shares(y, 3)
    assert set(shares) == {"features", "graph"} | names
    assert shares["features"] == Judge(Z, X, "euclidean", neighbors).shares(y, 3)["features"]


def test_true_labels_beat_shuffled_and_merged_ones(problem):
    Z, X, y, neighbors = problem
    judge = Judge(Z, X, "euclidean", neighbors)
    shuffled = y[torch.randperm(len(y), generator=torch.Generator().manual_seed(0))]
    merged = torch.where(y == 2, 1, y)
    assert judge.score(y, 3) > judge.score(merged, 3) > judge.score(shuffled, 3)


def test_units_do_not_matter(problem):
    """Neither the unit of all columns nor, with standardised columns, that of one."""
    Z, X, y, _ = problem
    plain = Judge(Z, X).score(y, 3)
    assert Judge(Z, 1000 * X + 7).score(y, 3) == pytest.approx(plain, rel=1e-4)
    scale = torch.ones(20)
    scale[3] = 500.0
    standard = Judge(Z, X, "standardized").score(y, 3)
    assert Judge(Z, X * scale, "standardized").score(y, 3) == pytest.approx(standard, rel=1e-4)
    assert Judge(Z, X * scale).score(y, 3) != pytest.approx(plain, rel=1e-2)


def test_lengths_tell_groups_apart_that_share_a_direction():
    """Two groups at one side of the origin and one at the other, all on one line."""
    generator = torch.Generator().manual_seed(0)
    y = torch.arange(300) % 3
    line = torch.tensor([-4.0, 1.0, 3.0])[y][:, None] * torch.ones(1, 4)
    X = line + 0.2 * torch.randn(300, 4, generator=generator)
    judge = Judge(torch.nn.functional.normalize(X, dim=1), X, "euclidean", nearest_neighbors(X, 5))
    by_side = torch.where(y == 2, 1, y)
    by_side[y == 1] = torch.arange(100) % 2 + 1  # the right two groups mixed
    assert judge.score(y, 3) > judge.score(by_side, 3)


@pytest.mark.parametrize("width", [3, 20])
def test_a_worthless_labelling_has_a_finite_score(width):
    X = torch.ones(6, width)
    score = Judge(torch.nn.functional.normalize(X, dim=1), X).score(torch.zeros(6).long(), 1)
    assert 0 <= score < 1e-3
    assert math.isfinite(score)


def test_few_wide_rows_have_principal_components():
    """More columns than rows, most of them the same: the Gram matrix is singular."""
    generator = torch.Generator().manual_seed(0)
    X = torch.rand(24, 1, generator=generator) * torch.ones(24, 1280)
    X[:, :30] += 1e-3 * torch.rand(24, 30, generator=generator)
    y = torch.arange(24) % 2
    Z = torch.nn.functional.normalize(X, dim=1)[:, :16]
    for metric in ("euclidean", "cosine", "standardized", "ridge:0.001"):
        assert math.isfinite(Judge(Z, X, metric).score(y, 2))


@pytest.mark.parametrize("entries", [1, 2 * 12**2])
def test_moments_held_in_parts_give_the_same_shares(problem, monkeypatch, entries):
    """One or two clusters at a time, as many clusters of many dimensions need."""
    Z, X, y, neighbors = problem
    whole = Judge(Z, X, "euclidean", neighbors).shares(y, 3)
    monkeypatch.setattr("unbend.labels.subspaces._ENTRIES", entries)
    parts = Judge(Z, X, "euclidean", neighbors).shares(y, 3)
    assert parts == pytest.approx(whole, rel=1e-9)
