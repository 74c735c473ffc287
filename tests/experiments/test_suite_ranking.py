"""Ranks, first places and Nemenyi's test, against published numbers and counting by hand."""

import numpy as np
import pytest
from scipy.stats import friedmanchisquare

from unbend.experiments.suite.picture import draw_ranks
from unbend.experiments.suite.ranking import critical_difference, groups, rank_methods


@pytest.mark.parametrize(("k", "q"), [(2, 1.960), (3, 2.343), (5, 2.728), (10, 3.164)])
def test_critical_values_are_those_of_demsar(k, q):
    """Table 5(a) of Demšar (2006), printed with three digits."""
    n = 30
    assert critical_difference(k, n) == pytest.approx(q * np.sqrt(k * (k + 1) / (6 * n)), rel=5e-4)


def test_ranks_share_ties_and_put_the_unfinished_last():
    scores = [[0.9, 0.5, 0.9, np.nan], [0.1, 0.2, 0.3, np.nan], [np.nan, 0.2, 0.1, np.nan]]
    found = rank_methods(["a", "b", "c", "d"], scores)
    np.testing.assert_array_equal(found.ranks, [[1.5, 3, 1.5, 4], [3, 2, 1, 4], [3.5, 1, 2, 3.5]])
    assert found.wins.tolist() == [1, 1, 2, 0]  # both that tie are first
    np.testing.assert_allclose(found.mean, found.ranks.mean(0))
    assert found.p_value == pytest.approx(friedmanchisquare(*found.ranks.T).pvalue)


def test_no_first_place_if_no_method_finished():
    found = rank_methods(["a", "b"], [[np.nan, np.nan], [0.1, 0.2]])
    assert found.wins.tolist() == [0, 1]
    assert np.isnan(found.p_value)  # Friedman's test needs three


def test_groups_are_all_maximal_runs_within_the_difference():
    """By trying every run."""
    rng = np.random.default_rng(0)
    for _ in range(50):
        ranks, difference = np.sort(rng.uniform(1, 8, 8)), rng.uniform(0.1, 4)
        runs = {
            (i, j) for i in range(8) for j in range(i + 1, 8) if ranks[j] - ranks[i] <= difference
        }
        maximal = [
            (i, j)
            for i, j in runs
            if not any(a <= i and j <= b and (a, b) != (i, j) for a, b in runs)
        ]
        assert groups(rng.permutation(ranks), difference) == sorted(maximal)


def test_the_picture_names_every_method_in_the_order_of_its_rank():
    methods = ["kmeans", "mlc", "lsr", "tsc", "ensc"]
    rng = np.random.default_rng(0)
    ranking = rank_methods(methods, rng.uniform(size=(6, 5)) + np.array([0, 3, 1, 0, 2]))
    figure = draw_ranks({"ARI": ranking, "NMI": ranking})
    assert len(figure.axes) == 2
    axes = figure.axes[0]
    texts = {t.get_text(): t.get_position() for t in axes.texts}
    for method, mean in zip(methods, ranking.mean, strict=True):
        (text,) = [t for t in texts if method in t]
        assert f"{mean:.2f}" in text
    assert texts["mlc  1.00"][1] < texts["ensc  2.00"][1]  # the axis points down
    assert any(f"critical difference {ranking.critical_difference:.2f}" in t for t in texts)
