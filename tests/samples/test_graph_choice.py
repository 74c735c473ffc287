"""The choice of the neighbours' metric against dense linear algebra and known answers."""

import json

import numpy as np
import pytest
import torch
from scipy.sparse.csgraph import laplacian
from tests.generators.subspaces import union_of_subspaces

from unbend.experiments.suite.synthetic import faces_under_light, lookalikes
from unbend.samples import (
    NeighborChoice,
    choose_metric,
    near_parts,
    nearest_neighbors,
    within_reach,
)
from unbend.samples.graph import graph_embedding, graph_spectrum
from unbend.samples.graph_choice import METRICS, _choose, _ridge_lead


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).double()


def adjacency(neighbors: torch.Tensor) -> np.ndarray:
    n = len(neighbors)
    A = np.zeros((n, n))
    for i, row in enumerate(neighbors.tolist()):
        for j in row:
            A[i, j] = A[j, i] = 1
    return A


@pytest.mark.parametrize("n", [60, 700])  # all eigenvalues at once, and Lanczos
def test_spectrum_is_that_of_the_dense_matrix(n):
    neighbors = nearest_neighbors(random(n, 5), 6)
    A = adjacency(neighbors)
    scale = 1 / np.sqrt(A.sum(1))
    dense = np.linalg.eigvalsh(scale[:, None] * A * scale)[::-1]
    np.testing.assert_allclose(graph_spectrum(neighbors, 9), dense[:9], atol=1e-4)
    by_scipy = 1 - np.linalg.eigvalsh(laplacian(A, normed=True))
    np.testing.assert_allclose(graph_spectrum(neighbors, 9), by_scipy[:9], atol=1e-4)


@pytest.mark.parametrize("n", [60, 700])
def test_embedding_spans_the_leading_eigenvectors_of_the_dense_matrix(n):
    parts = [random(n // 3, 5, seed=q) + 100 * q for q in range(3)]  # three components
    neighbors = nearest_neighbors(torch.cat(parts), 6)
    A = adjacency(neighbors)
    scale = 1 / np.sqrt(A.sum(1))
    dense = np.linalg.eigh(scale[:, None] * A * scale)[1][:, ::-1][:, :7]
    found = graph_embedding(neighbors, 7).numpy()
    np.testing.assert_allclose(found.T @ found, np.eye(7), atol=1e-5)
    np.testing.assert_allclose(np.linalg.svd(found.T @ dense)[1], 1, atol=1e-3)
    assert graph_embedding(neighbors, 2) is None  # more components than that


@pytest.mark.parametrize("size", [12, 160])
@pytest.mark.parametrize("k", [2, 5])
def test_k_components_have_k_eigenvalues_of_one(k, size):
    X = torch.cat([random(size, 3, seed=q) + 1000 * q for q in range(k)])
    values = graph_spectrum(nearest_neighbors(X, 10), k + 1)
    np.testing.assert_allclose(values[:k], 1, atol=1e-4)
    assert values[k] < 0.99


def test_ridge_is_chosen_for_subspaces_that_pass_near_each_other():
    """Ten subspaces of 9 dimensions in 40: the nearest row is often in another subspace."""
    data = union_of_subspaces(600, 10, d=40, dim=9, noise=0.1, seed=0)
    choice = choose_metric(torch.from_numpy(data.Z), 10)
    assert choice.metric.startswith("ridge:")

    def purity(metric: str) -> float:
        found = nearest_neighbors(torch.from_numpy(data.Z), 5, metric=metric).numpy()
        return float((data.y[found] == data.y[:, None]).mean())

    assert purity(choice.metric) > purity("euclidean") + 0.05


def test_standardized_is_chosen_for_columns_of_different_units():
    """Columns in other units hide the groups from every metric that keeps the units."""
    y = np.repeat(np.arange(4), 100)
    X = 6 * torch.eye(4).double()[y] + random(400, 4)
    X = torch.cat([X, 1000 * random(400, 6, seed=1)], dim=1)
    choice = choose_metric(X, 4)
    assert choice.metric == "standardized"
    assert choice.scores["standardized"] > choice.scores["euclidean"] + 0.05


def test_standardized_is_chosen_when_one_wide_column_has_no_groups():
    """Along one wide column the graph is a chain, which would score best."""
    y = np.repeat(np.arange(4), 100)
    X = torch.cat([6 * torch.eye(4).double()[y] + random(400, 4), 500 * random(400, 1)], dim=1)
    choice = choose_metric(X, 4)
    assert choice.metric == "standardized"
    assert "one column" in choice.reason()


def test_score_is_one_less_the_bound_on_the_normalised_cut():
    """Ky Fan: the mean of the k largest eigenvalues is at least that of any k-way partition."""
    X = torch.cat([random(50, 4, seed=q) + 2 * q for q in range(3)])
    A = adjacency(nearest_neighbors(X, 5))
    y = np.repeat(np.arange(3), 50)
    within = [A[np.ix_(y == q, y == q)].sum() / A[y == q].sum() for q in range(3)]
    score = choose_metric(X, 3, metrics=("euclidean",)).scores["euclidean"]
    assert score >= np.mean(within) - 1e-9
    assert score == pytest.approx(np.mean(within), abs=0.1)


@pytest.mark.parametrize("metric", ["euclidean", "cosine", "ridge:0.003"])
def test_scores_do_not_change_when_the_samples_turn(metric):
    X = random(200, 6)
    turn = torch.linalg.qr(random(6, 6, seed=2))[0]
    before = choose_metric(X, 5, metrics=(metric,)).scores[metric]
    after = choose_metric(X @ turn, 5, metrics=(metric,)).scores[metric]
    assert after == pytest.approx(before, abs=1e-6)


def test_ties_go_to_the_first_metric():
    X = torch.cat([random(30, 8), random(30, 8, seed=1) + 500])
    choice = choose_metric(X, 2)
    assert choice.scores["euclidean"] == pytest.approx(choice.scores["cosine"], abs=1e-4)
    assert choice.metric == METRICS[0] == "euclidean"


@pytest.mark.parametrize("k", ["auto", 1, 3])
def test_every_metric_has_a_score_between_minus_one_and_one(k):
    choice = choose_metric(random(120, 8), k)
    assert tuple(choice.scores) == METRICS
    assert all(-1 <= score <= 1 + 1e-6 for score in choice.scores.values())
    if k == 1:  # the largest eigenvalue is 1, whatever the graph
        assert all(score == pytest.approx(1) for score in choice.scores.values())


def test_unknown_k_takes_the_mean_over_several():
    X = random(120, 4)
    values = graph_spectrum(nearest_neighbors(X, 5), 12)
    expected = np.mean([values[:c].mean() for c in (2, 3, 5, 8, 12)])
    found = choose_metric(X, "auto", metrics=("euclidean",)).scores["euclidean"]
    assert found == pytest.approx(expected, abs=1e-6)


def test_large_sets_are_judged_on_a_pilot_of_the_same_rows():
    X = random(2600, 3)
    first = choose_metric(X, 4, metrics=("euclidean", "cosine"))
    assert first == choose_metric(X, 4, metrics=("euclidean", "cosine"))
    other = choose_metric(X, 4, metrics=("euclidean", "cosine"), seed=1)
    assert first.scores != other.scores


def test_reason_names_the_metric_and_the_next():
    choice = NeighborChoice("cosine", {"euclidean": 0.81, "cosine": 0.93, "ridge:0.003": 0.9})
    assert "neighbours by cosine" in choice.reason()
    assert "0.930" in choice.reason()
    assert "next ridge:0.003 0.900" in choice.reason()
    assert NeighborChoice("cosine", {}).reason() == "neighbours by cosine, as asked"
    tie = NeighborChoice("euclidean", {"euclidean": 0.99999, "standardized": 1.0})
    assert "score 1.000; standardized 1.000" in tie.reason()


def test_choice_round_trips_through_json():
    choice = choose_metric(random(50, 3), 2)
    assert NeighborChoice.from_dict(json.loads(json.dumps(choice.to_dict()))) == choice


@pytest.mark.parametrize(("ridge", "chosen"), [(0.805, "cosine"), (0.83, "ridge:0.01")])
def test_ridge_must_leave_a_tenth_less_to_cut(ridge, chosen):
    scores = {"euclidean": 0.7, "cosine": 0.8, "ridge:0.01": ridge}
    lead = _ridge_lead(scores)
    assert lead.leaves == pytest.approx((1 - ridge) / 0.2)
    assert _choose(scores, lead) == chosen


def test_ridge_has_nothing_to_improve_where_others_cut_no_link():
    assert _ridge_lead({"euclidean": 1.0, "ridge:0.01": 1.0}).leaves == 1
    assert _ridge_lead({"euclidean": 0.995, "ridge:0.01": 1.0}, least=0.01).leaves == 1


def test_for_unknown_k_ridge_has_to_lead_at_one_number():
    """Thirty faces under light: ridge neighbours lead by far at 30 parts, and are behind at 8."""
    X = torch.from_numpy(faces_under_light()[0])
    unknown, known = choose_metric(X, "auto"), choose_metric(X, 30)
    assert unknown.ridge_leaves < 0.8
    assert unknown.ridge_leaves == pytest.approx(known.ridge_leaves, abs=0.02)
    assert unknown.metric.startswith("ridge:")
    scores = unknown.scores
    mean_of_all = min(1 - s for m, s in scores.items() if m.startswith("ridge:"))
    mean_of_all /= min(1 - s for m, s in scores.items() if not m.startswith("ridge:"))
    assert mean_of_all > 0.85  # the mean over all k hides it


def test_near_neighbours_that_show_the_groups_go_before_ridge_neighbours():
    X = torch.from_numpy(lookalikes()[0])
    choice = choose_metric(X, 20)
    assert choice.parts == 20
    assert not choice.metric.startswith("ridge:")
    assert choice.ridge_leaves == 1
    assert choice.reason().startswith(f"near neighbours by {choice.metric}")
    assert NeighborChoice.from_dict(json.loads(json.dumps(choice.to_dict()))) == choice
    assert choose_metric(X, 5).parts == 0  # there are more parts than that
    assert choose_metric(X, "auto").parts == 20
    assert choose_metric(torch.from_numpy(faces_under_light()[0]), 30).parts == 0


def test_near_parts_do_not_depend_on_the_sample_of_the_rows():
    """A quarter of the samples of a curve has gaps; then all rows are looked at."""
    X = torch.from_numpy(lookalikes(each=200)[0])
    assert len(X) == 4000
    assert choose_metric(X, 20).parts == 20
    graph = nearest_neighbors(X, 10)
    assert within_reach(X, graph, "euclidean", 20) is not graph
    assert near_parts(X, "cosine", 20) == near_parts(X, "cosine", "auto") == 20
    assert near_parts(random(3000, 30), "euclidean", 20) == 0
    assert choose_metric(X, 20, parts=0).parts == 0


def test_angles_are_no_candidates_among_few_columns():
    """Groups side by side on one ray have the same angle."""
    blobs = [0.3 * random(60, 2, seed=q) + torch.tensor([4.0 * q, 4.0 * q]) for q in range(4)]
    choice = choose_metric(torch.cat(blobs), 4)
    assert set(choice.scores) == {"euclidean", "standardized"}
    near = nearest_neighbors(torch.cat(blobs), 5, metric=choice.metric)
    assert (near // 60 == torch.arange(240)[:, None] // 60).double().mean() > 0.95
    constant = torch.cat([torch.cat(blobs), torch.ones(240, 8)], 1)
    assert choose_metric(constant, 4).scores.keys() == choice.scores.keys()
    assert choose_metric(random(60, 2), 2, metrics=("cosine",)).metric == "cosine"  # asked for
    assert "cosine" in choose_metric(random(60, 8), 2).scores


def test_ridge_neighbours_are_no_candidates_among_answers():
    """Members of a party vote alike; whitened columns would be ruled by rare answers."""
    generator = torch.Generator().manual_seed(0)
    y = torch.arange(300) % 2
    likely = torch.tensor([0.9, 0.1])[y][:, None].repeat(1, 12)
    votes = (torch.rand(300, 12, generator=generator) < likely).double()
    choice = choose_metric(votes, 2)
    assert not any(metric.startswith("ridge") for metric in choice.scores)
    near = nearest_neighbors(votes, 5, metric=choice.metric)
    assert (y[near] == y[:, None]).double().mean() > 0.95
    mixed = torch.cat([votes[:, :5], random(300, 7), torch.zeros(300, 20)], 1)
    assert any(metric.startswith("ridge") for metric in choose_metric(mixed, 2).scores)


def test_ridge_that_leads_at_one_number_only_says_so():
    scores = {"euclidean": 0.85, "ridge:0.01": 0.8, "ridge:0.1": 0.81}
    reason = NeighborChoice("ridge:0.01", scores, 0.5).reason()
    assert "at one number of groups" in reason
    assert "0.800; euclidean 0.850" in reason


def test_only_ridge_metrics_for_few_samples_and_unknown_k():
    assert choose_metric(random(30, 8), "auto", metrics=("ridge:0.01",)).metric == "ridge:0.01"


def test_a_close_second_is_named_with_its_score():
    choice = NeighborChoice("cosine", {"cosine": 0.80, "ridge:0.01": 0.805})
    assert "no graph separates the groups clearly better" in choice.reason()
    assert "ridge:0.01 0.805" in choice.reason()


def test_one_of_two_columns_is_in_a_unit_of_its_own_only_where_it_has_almost_all():
    """Age in decades beside income: long groups have less than that."""
    y = np.repeat(np.arange(3), 100)
    age = torch.from_numpy(y).double()[:, None] + 0.1 * random(300, 1)
    assert choose_metric(torch.cat([age, 1e4 * random(300, 1)], dim=1), 3).metric == "standardized"
    long = torch.cat([random(300, 1) + 8 * age, 0.3 * random(300, 1)], dim=1)
    assert "euclidean" in choose_metric(long, 3).scores


def test_a_given_number_of_parts_counts_only_where_near_neighbours_show_it():
    X = torch.from_numpy(faces_under_light()[0])
    assert choose_metric(X, 30, parts=10) == choose_metric(X, 30, parts=0)
    assert choose_metric(torch.from_numpy(lookalikes()[0]), 5, parts=20).parts == 20
    assert NeighborChoice("cosine", {}).reason() == "neighbours by cosine, as asked"
    near = NeighborChoice("cosine", {}, parts=3).reason()
    assert near.startswith("near neighbours alone")
    assert near.endswith("by cosine, as asked")
