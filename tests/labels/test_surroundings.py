"""Isolation, votes and temperature against slow and independent computations."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from scipy.spatial.distance import cdist

from unbend.labels import Surroundings, calibrate_temperature, n_voters, survey
from unbend.labels.confidence import cool

METRICS = ("euclidean", "cosine", "standardized", "ridge:0.003")


def draw(n: int, seed: int) -> torch.Tensor:
    """Three planes in 20 dimensions with a little noise, the same for every seed."""
    bases = np.linalg.qr(np.random.default_rng(0).standard_normal((3, 20, 3)))[0]
    rng = np.random.default_rng(seed)
    y = rng.integers(3, size=n)
    rows = np.einsum("npd,nd->np", bases[y], rng.standard_normal((n, 3)))
    return torch.from_numpy(rows + 0.03 * rng.standard_normal((n, 20))).float()


def test_score_agrees_with_a_slow_one() -> None:
    X, new = draw(60, 1), draw(7, 2)
    D = cdist(X, X)
    np.fill_diagonal(D, np.inf)
    reach = np.sort(D)[:, :10].mean(1)
    across = cdist(new, X)
    order = np.argsort(across)[:, :10]
    ratio = np.sort(across)[:, :10].mean(1) / reach[order].mean(1)
    found = survey(X, "euclidean").score(new)
    np.testing.assert_allclose(found, ratio / (1 + ratio), rtol=5e-3)


@pytest.mark.parametrize("metric", METRICS)
def test_fresh_samples_are_rarely_flagged_and_noise_is_caught(metric: str) -> None:
    around = survey(draw(900, 1), metric)
    fresh = around.score(draw(3000, 2)) > around.threshold
    assert 0.002 <= fresh.mean() <= 0.03
    noise = torch.from_numpy(np.random.default_rng(3).standard_normal((300, 20))).float()
    assert (around.score(noise) > around.threshold).mean() > 0.9


@pytest.mark.parametrize("metric", METRICS)
def test_a_fitted_sample_does_not_count_itself(metric: str) -> None:
    """Scored again, one fitted sample in a hundred is above the threshold, not none."""
    X = draw(900, 1)
    around = survey(X, metric)
    assert (around.score(X) > around.threshold).sum() == pytest.approx(9, abs=3)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("value", [1e19, 3e38, -3e38])
def test_enormous_values_are_outliers_with_a_finite_score(metric: str, value: float) -> None:
    """Their squares are beyond 32 bits."""
    around = survey(draw(80, 1), metric)
    X = draw(3, 2)
    X[0, 0] = value
    score = around.score(X)
    assert np.isfinite(score).all()
    assert metric == "cosine" or score[0] > around.threshold
    np.testing.assert_array_equal(score[1:], around.score(draw(3, 2)[1:]))


def test_state_survives_json_and_damage_is_told() -> None:
    around = survey(draw(80, 1), "standardized")
    tensors, values = around.state()
    again = Surroundings.from_state(tensors, json.loads(json.dumps(values)))
    np.testing.assert_array_equal(again.score(draw(9, 2)), around.score(draw(9, 2)))
    assert again.quantiles == around.quantiles
    with pytest.raises(ValueError, match="do not fit together"):
        Surroundings.from_state({**tensors, "reach": tensors["reach"][:3]}, values)
    with pytest.raises(ValueError, match="unknown kind"):
        Surroundings.from_state(tensors, {**values, "kind": "x"})


@pytest.mark.parametrize("rows", [torch.ones(5, 3), torch.ones(1, 3)])
def test_copies_are_not_isolated(rows: torch.Tensor) -> None:
    around = survey(rows, "euclidean")
    np.testing.assert_allclose(around.score(rows), 0.5)


def test_votes_are_shares_of_the_nearest_others() -> None:
    X = torch.tensor([[0.0], [0.1], [0.2], [5.0], [5.1], [5.2]])
    labels = torch.tensor([0, 0, 1, 1, 1, 1])
    votes = survey(X, "euclidean").votes(X, labels, 2, 2)
    np.testing.assert_allclose(votes[:3], [[0.5, 0.5], [0.5, 0.5], [1, 0]])
    np.testing.assert_allclose(votes[3:, 1], 1)


def test_temperature_brings_confidence_to_agreement() -> None:
    rng = np.random.default_rng(0)
    sure = np.full((400, 4), 0.004)
    sure[np.arange(400), rng.integers(4, size=400)] = 0.988
    votes = 0.1 + 0.6 * (sure > 0.5)  # 0.7 for the own cluster, 0.1 for each other
    T = calibrate_temperature(sure, torch.from_numpy(votes))
    assert cool(sure, T).max(1).mean() == pytest.approx(0.7, abs=0.01)
    np.testing.assert_array_equal(cool(sure, T).argmax(1), sure.argmax(1))
    unsure = cool(sure, T)
    sharper = calibrate_temperature(unsure, torch.from_numpy(sure))
    assert sharper < 1  # Γ may also be less certain than the neighbours
    assert cool(unsure, sharper).max(1).mean() == pytest.approx(0.988, abs=0.005)


def test_number_of_voters_follows_the_size_of_clusters() -> None:
    assert n_voters(1000, 10) == 12
    assert n_voters(30, 10) == 5


@pytest.mark.parametrize("metric", METRICS[:3])
def test_outliers_among_the_references_do_not_set_the_threshold(metric: str) -> None:
    """Clean references keep their quantile; three per cent of noise would be above it."""
    clean = survey(draw(1000, 1), metric)
    assert clean.threshold == clean.quantiles[0.99]
    noise = 3 * torch.randn(30, 20, generator=torch.Generator().manual_seed(0))
    found = survey(torch.cat([draw(970, 1), noise]), metric)
    assert found.threshold < found.quantiles[0.99]
    assert (found.score(draw(300, 2)) > found.threshold).mean() < 0.03
    assert (found.score(noise) > found.threshold).mean() > 0.7


def test_a_threshold_exists_where_nearly_all_are_copies() -> None:
    X = torch.zeros(50, 4)
    X[:6] = 1e12 * torch.eye(4).repeat(2, 1)[:6]
    assert 0.5 <= survey(X, "euclidean").threshold <= 1
    assert survey(torch.zeros(50, 4), "euclidean").threshold == pytest.approx(0.5)
