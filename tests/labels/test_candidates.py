"""The choice among labellings: known answers, Eq. (1), the guard against splinters."""

import json
import math
import warnings

import numpy as np
import pytest
import torch
from sklearn.metrics import adjusted_rand_score
from tests.generators.subspaces import union_of_subspaces

from unbend.exceptions import UnbendWarning
from unbend.functional import coding_rate
from unbend.labels import Codes, LabelModel, choose_labelling
from unbend.labels.candidates import _Candidate, _rank
from unbend.labels.embedding import Settings, embed_codes
from unbend.labels.judge import Judge
from unbend.labels.subspaces import rate_reduction_of
from unbend.samples import nearest_neighbors


def states(n: int = 400, k: int = 4, seed: int = 0, **options) -> tuple[list[Codes], np.ndarray]:
    data = union_of_subspaces(n, k, d=32, seed=seed, **options)
    Z, C = torch.from_numpy(data.Z), torch.from_numpy(data.C)
    return [Codes("stage 1", C, Z, 0.175), Codes("stage 2 at eta 0.175", C, Z, 0.175)], data.y


@pytest.mark.parametrize("eps_sq", [0.1, 0.5])
@pytest.mark.parametrize("d", [8, 40])
def test_rate_reduction_is_equation_1(eps_sq, d):
    data = union_of_subspaces(120, 5, d=d, dim=3, imbalance=6, seed=1)
    Z, y = torch.from_numpy(data.Z).double(), torch.from_numpy(data.y)
    parts = sum((y == q).double().mean() * coding_rate(Z[y == q], eps_sq) for q in range(5))
    expected = float(coding_rate(Z, eps_sq) - parts)
    assert rate_reduction_of(Z, y, 5, eps_sq) == pytest.approx(expected, rel=1e-9)
    # An empty cluster has no weight.
    assert rate_reduction_of(Z, y, 7, eps_sq) == pytest.approx(expected, rel=1e-9)


def test_separated_groups_are_kept():
    codes, y = states()
    found = choose_labelling(codes, 4)
    assert adjusted_rand_score(y, found.model.labels) == 1.0
    assert found.model.n_clusters == 4
    assert found.source in (0, 1)


def test_the_state_that_separates_is_chosen():
    """Stage 2 at random codes loses against the end of stage 1, and the reverse."""
    codes, y = states()
    noise = torch.nn.functional.normalize(
        torch.randn(400, 32, generator=torch.Generator().manual_seed(0)), dim=1
    )
    for good in (0, 1):
        mixed = [Codes(f"state {i}", codes[0].C if i == good else noise, codes[0].Z, 0.175)
                 for i in (0, 1)]  # fmt: skip
        found = choose_labelling(mixed, 4)
        assert found.source == good
        assert found.model.candidates[0]["labelling"].startswith(f"state {good}: ")
        assert adjusted_rand_score(y, found.model.labels) == 1.0


def test_samples_help_to_choose_the_labelling():
    """If the features are noise, the samples themselves still identify the better labelling."""
    codes, y = states()
    generator = torch.Generator().manual_seed(0)
    noise = torch.nn.functional.normalize(torch.randn(400, 32, generator=generator), dim=1)
    samples = 10 * torch.eye(4)[torch.from_numpy(y)] + torch.randn(400, 4, generator=generator)
    mixed = [Codes("noise", noise, noise, 0.175), Codes("groups", codes[0].C, noise, 0.175)]
    assert choose_labelling(mixed, 4, samples=samples).source == 1


def test_splinters_are_not_preferred():
    """Codes with one lone sample make a cluster of one; the other state has none."""
    codes, y = states(n=402, k=3)
    lone = torch.zeros(402, 32)
    lone[torch.arange(402), torch.from_numpy(np.minimum(y, 1))] = 1
    lone[0] = 0
    lone[0, 5] = 1
    mixed = [codes[0], Codes("splintered", lone, codes[0].Z, 0.1)]
    with warnings.catch_warnings():
        warnings.simplefilter("error", UnbendWarning)
        found = choose_labelling(mixed, 3)
    rows = found.model.candidates
    assert found.source == 0
    assert rows[0]["smallest_cluster"] > 10
    splinters = [row for row in rows if row["smallest_cluster"] < 3]
    assert splinters
    assert list(rows[-len(splinters) :]) == splinters


def test_a_warning_when_every_labelling_has_a_splinter():
    C = torch.eye(8)[torch.arange(201) % 2]
    C[0] = torch.eye(8)[5]
    codes = [Codes("stage 1", C, C, 0.1)]
    with pytest.warns(UnbendWarning, match="smallest of 3 clusters has 1 of 201 samples"):
        found = choose_labelling(codes, 3)
    assert np.bincount(found.model.labels).min() == 1


def test_separate_parts_of_the_graph_are_kept_whatever_their_score():
    """Rings in ten dimensions: halves explain more of the rate, but cut the graph."""
    angle = torch.linspace(0, 2 * math.pi, 151)[:-1].repeat(2)
    y = torch.arange(300) // 150
    radius = torch.tensor([1.0, 2.0])[y]
    turn = torch.linalg.qr(torch.randn(10, 10, generator=torch.Generator().manual_seed(0)))[0]
    X = torch.zeros(300, 10)
    X[:, 0], X[:, 1] = radius * angle.cos(), radius * angle.sin()
    X = X @ turn
    side = (X @ turn.T)[:, 0] > 0
    # Stage 1 knows only the halves; the second state knows the rings.
    Z = torch.nn.functional.normalize(torch.eye(4)[side.long()] + 0.01, dim=1)
    neighbors = nearest_neighbors(X, 6)
    judge = Judge(Z, X, "euclidean", neighbors)
    assert judge.score(side.long(), 2) > judge.score(y, 2)
    assert judge.separates(y, 2)
    assert not judge.separates(side.long(), 2)
    C = torch.nn.functional.normalize(torch.eye(4)[y] + 0.01, dim=1)
    states = [Codes("halves", Z, Z, 0.1), Codes("rings", C, Z, 0.1)]
    model = choose_labelling(states, 2, samples=X, neighbors=neighbors).model
    assert (torch.from_numpy(model.labels) == y).double().mean() in (0, 1)
    assert model.candidates[0]["separate"]
    assert model.candidates[0]["score"] < max(row["score"] for row in model.candidates)


def test_more_clusters_that_the_judge_merged_are_one_more_labelling(monkeypatch):
    """Found for vectors only, and it must lead by one per cent."""
    codes, y = states()
    name, X = "stage 1: more clusters, merged by the judge", 3 * codes[0].Z + 1

    def scores(**given):
        found = choose_labelling(codes, 4, **given).model.candidates
        return {row["labelling"]: row["score"] for row in found}

    neighbors = nearest_neighbors(X, 10)
    found = scores(samples=X, neighbors=neighbors)
    right = Judge(codes[0].Z, X, "euclidean", neighbors).score(torch.from_numpy(y), 4)
    assert found[name] == pytest.approx(right / 1.01, abs=1e-4)
    assert max(found.values()) == pytest.approx(right, abs=1e-4)
    assert name not in scores()
    of_images = choose_labelling(codes, 4).model.candidates
    assert not any(row["separate"] for row in of_images)  # trained features do not count
    assert all(type(row["separate"]) is bool for row in of_images)
    monkeypatch.setattr("unbend.labels.candidates._FINER_UP_TO", 399)
    assert name not in scores(samples=X, neighbors=neighbors)


def test_the_table_is_sorted_and_survives_json():
    codes, _ = states(noise=0.6, spread=1.0)
    model = choose_labelling(codes, 4).model
    rows = json.loads(json.dumps(list(model.candidates)))
    keys = {"labelling", "score", "smallest_cluster", "separate"}
    assert [set(row) for row in rows] == [keys] * len(rows)
    assert len({row["labelling"] for row in rows}) == len(rows) >= 4
    least = max(2, int(np.ceil(0.02 * 400 / 4)))
    order = [(row["smallest_cluster"] >= least, row["separate"], row["score"]) for row in rows]
    assert order == sorted(order, reverse=True)
    assert rows[0]["smallest_cluster"] == np.bincount(model.labels, minlength=4).min()
    assert all(0 <= row["score"] <= 1 for row in rows)
    assert LabelModel.from_state(*model.state()).candidates == model.candidates


def test_without_samples_the_score_is_that_of_features_and_of_their_graph():
    codes, y = states()
    model = choose_labelling(codes, 4).model
    Z, labels = codes[0].Z.double(), torch.from_numpy(y)
    whole = coding_rate(Z, 1.0)
    parts = sum((labels == q).double().mean() * coding_rate(Z[labels == q], 1.0) for q in range(4))
    explained = float((whole - parts) / whole)
    near, A = nearest_neighbors(codes[0].Z, 10).numpy(), np.zeros((len(y), len(y)))
    np.put_along_axis(A, near, 1, axis=1)
    A = np.maximum(A, A.T)
    kept = np.mean([A[np.ix_(y == q, y == q)].sum() / A[y == q].sum() for q in range(4)])
    expected = (explained * kept) ** 0.5
    assert model.candidates[0]["score"] == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("method", ["dense", "landmarks"])
def test_labels_of_all_samples_become_representatives_on_either_path(method):
    """Labels that the codes agree with come back for every sample, also for a small cluster."""
    y = torch.arange(3000) % 30 % 5  # six in thirty of each
    y[y == 4] = torch.where(torch.arange(600) < 30, 4, 3)
    noise = torch.randn(3000, 16, generator=torch.Generator().manual_seed(0))
    C = torch.nn.functional.normalize(torch.eye(16)[y] + 0.1 * noise, dim=1)
    settings = Settings(0.1, 0.1, False, 1e-4, 0, None)
    reps, labels = embed_codes(method, C, 5, settings).represent_samples(y, 5)
    assert labels is y
    assert len(reps.codes) < 3000
    torch.testing.assert_close(reps.classify(C)[0], y)
    shares = reps.probabilities(C)
    mean = torch.cat([p for _, p in shares]).mean(0)  # Γ is doubly stochastic
    torch.testing.assert_close(mean, torch.bincount(y) / 3000, atol=0.01, rtol=0)


@pytest.mark.parametrize("method", ["dense", "blocks", "landmarks"])
def test_every_labelling_path_finds_the_clusters(method):
    codes, y = states(n=900)
    found = choose_labelling(codes, 4, method=method)
    assert found.model.method == method
    assert adjusted_rand_score(y, found.model.labels) == 1.0
    np.testing.assert_array_equal(found.model.predict(codes[found.source].C), found.model.labels)


def test_one_cluster():
    codes, _ = states(n=100)
    found = choose_labelling(codes, 1)
    assert set(found.model.labels.tolist()) == {0}


def test_the_same_seed_gives_the_same_table():
    codes, _ = states(noise=0.6)
    first, second = (choose_labelling(codes, 4, seed=3).model for _ in range(2))
    assert first.candidates == second.candidates
    np.testing.assert_array_equal(first.labels, second.labels)


def test_spectral_clustering_of_the_neighbours_is_a_candidate():
    """Two rings that no code separates: only their graph of neighbours does."""
    angle = torch.rand(400, generator=torch.Generator().manual_seed(0)) * 2 * torch.pi
    y = torch.arange(400) % 2
    ring = torch.stack([angle.cos(), angle.sin()], dim=1) * (1 + 2 * y[:, None])
    samples = torch.cat([ring, 4.0 * y[:, None] - 2.0], dim=1)
    neighbors = nearest_neighbors(samples, 10)
    C = torch.nn.functional.normalize(torch.cat([ring, 0.2 * samples[:, 2:]], dim=1), dim=1)
    codes = [Codes("stage 1", C, C, 0.05), Codes("stage 2", C, C, 0.05)]
    rows = choose_labelling(codes, 2, samples=samples, neighbors=neighbors).model.candidates
    assert "stage 1: spectral clustering of the neighbours" in {row["labelling"] for row in rows}
    without = choose_labelling(codes, 2, samples=samples).model.candidates
    assert len(without) == len(rows) - 1


def test_without_samples_the_graph_of_the_features_is_a_candidate():
    """Two whole circles around one centre: neither k-means nor a blurred Γ tells them apart."""
    angle = torch.arange(200) * (2 * torch.pi / 200)
    circle, empty = torch.stack([angle.cos(), angle.sin()], dim=1), torch.zeros(200, 2)
    Z = torch.cat([torch.cat([circle, empty], 1), torch.cat([empty, circle], 1)])
    found = choose_labelling([Codes("stage 1", Z, Z, 2.0), Codes("stage 2", Z, Z, 2.0)], 2)
    rows = {row["labelling"]: row["score"] for row in found.model.candidates}
    graph = "stage 1: spectral clustering of the 5 nearest features"
    assert rows[graph] == max(rows.values()) > 1.1 * rows["stage 2: k-means of the codes"]
    assert adjusted_rand_score(np.arange(400) // 200, found.model.labels) == 1.0
    with_samples = choose_labelling([Codes("stage 1", Z, Z, 2.0)], 2, samples=Z)
    assert not any("features" in row["labelling"] for row in with_samples.model.candidates)


def test_a_graph_with_too_many_components_gives_no_candidate():
    codes, _ = states(n=400, k=4)
    neighbors = torch.arange(400).reshape(-1, 2).flip(1).reshape(-1, 1)  # 200 pairs
    rows = choose_labelling(codes, 4, neighbors=neighbors).model.candidates
    assert not any("neighbours" in row["labelling"] for row in rows)


def test_a_cluster_of_one_sample_is_better_than_an_empty_one():
    """With two samples per cluster all labellings have splinters, but some have all clusters."""
    ones, none = (
        _Candidate("", 0, None, None, score, smallest, False)  # type: ignore[arg-type]
        for score, smallest in ((0.4, 1), (0.5, 0))
    )
    assert max([none, ones], key=_rank(100, 50)) is ones


def test_equal_rows_are_told_once(recwarn):
    C = torch.eye(4)[torch.zeros(60, dtype=torch.long)]
    choose_labelling([Codes("stage 1", C, C, 0.1)], 3)
    assert not [w for w in recwarn if "distinct clusters" in str(w.message)]
