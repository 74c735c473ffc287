import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import hypergeom
from sklearn import metrics as sk
from sklearn.metrics.cluster import contingency_matrix, expected_mutual_information
from tests.oracles.training import accuracy_oracle, global_random_state_kept

from unbend.metrics import chance_scores, clustering_accuracy, clustering_scores

labels = st.integers(1, 30).flatmap(
    lambda n: st.tuples(
        st.lists(st.integers(0, 4), min_size=n, max_size=n),
        st.lists(st.integers(0, 4), min_size=n, max_size=n),
    )
)


@settings(max_examples=150, deadline=None)
@given(labels)
def test_accuracy_is_the_best_over_all_injections(pair):
    true, pred = pair
    assert clustering_accuracy(true, pred) == pytest.approx(accuracy_oracle(true, pred), abs=1e-12)


@pytest.mark.parametrize(("k", "classes"), [(2, 5), (5, 2), (1, 4), (4, 1), (6, 6)])
def test_accuracy_with_other_numbers_of_clusters_than_classes(k, classes):
    rng = np.random.default_rng(0)
    true, pred = rng.integers(classes, size=80).tolist(), rng.integers(k, size=80).tolist()
    assert clustering_accuracy(true, pred) == pytest.approx(accuracy_oracle(true, pred))


def test_accuracy_is_not_greedy():
    """The largest overlap, 4, is better left: 3 + 3 beats 4 + 0."""
    true, pred = [0] * 7 + [1] * 3, [0] * 4 + [1] * 3 + [0] * 3
    assert clustering_accuracy(true, pred) == pytest.approx(0.6)


@settings(max_examples=50, deadline=None)
@given(labels, st.permutations(range(5)), st.permutations(range(5)), st.randoms())
def test_names_of_labels_and_order_of_samples_do_not_matter(pair, names, others, shuffle):
    true, pred = pair
    order = list(range(len(true)))
    shuffle.shuffle(order)
    renamed = clustering_scores(
        [f"class {names[true[i]]}" for i in order], [others[pred[i]] for i in order]
    )
    scores = clustering_scores(true, pred)
    assert list(renamed.to_dict().values()) == pytest.approx(
        list(scores.to_dict().values()), abs=1e-9
    )


@settings(max_examples=50, deadline=None)
@given(labels)
def test_information_scores_are_scikit_learns(pair):
    true, pred = pair
    scores = clustering_scores(true, pred)
    assert scores.nmi == pytest.approx(sk.normalized_mutual_info_score(true, pred))
    assert scores.ami == pytest.approx(sk.adjusted_mutual_info_score(true, pred))
    assert scores.ari == pytest.approx(sk.adjusted_rand_score(true, pred))
    assert (scores.n, scores.n_classes, scores.n_clusters) == (
        len(true),
        len(set(true)),
        len(set(pred)),
    )


def test_a_perfect_clustering_scores_one_in_plain_numbers():
    scores = clustering_scores(np.array(["a", "a", "b", "c"]), np.array([2, 2, 0, 1])).to_dict()
    assert scores == {
        "n": 4, "n_classes": 3, "n_clusters": 3, "acc": 1.0, "nmi": 1.0, "ami": 1.0, "ari": 1.0
    }  # fmt: skip
    assert {type(v) for v in scores.values()} == {int, float}


# ---------------------------------------------------------------- chance


def chance_of_information(y: np.ndarray) -> float:
    """Expected NMI of a random permutation of balanced labels."""
    table = contingency_matrix(y, y, sparse=True)
    share = np.bincount(y) / len(y)
    return expected_mutual_information(table, len(y)) / -(share * np.log(share)).sum()


def test_chance_of_two_halves_has_a_closed_form():
    """The overlap X of two random halves of n is hypergeometric: ACC is 1/2 + E|X - n/4| · 2/n."""
    n = 40
    y = np.repeat([0, 1], n // 2)
    overlap = np.arange(n // 2 + 1)
    mass = hypergeom(n, n // 2, n // 2).pmf(overlap)
    scores = chance_scores(y, y, n_draws=200)
    # Tolerances: about four deviations of a mean over 200 draws.
    expected = 0.5 + (mass * np.abs(overlap - n / 4)).sum() * 2 / n
    assert scores.acc == pytest.approx(expected, abs=0.015)
    assert scores.nmi == pytest.approx(chance_of_information(y), abs=0.01)
    assert scores.ari == pytest.approx(0, abs=0.01)  # corrected for chance
    assert scores.ami == pytest.approx(0, abs=0.01)


def test_chance_is_high_with_many_small_clusters():
    """Random labels of 200 balanced clusters of 1024 samples score ACC .21 and NMI .69."""
    y = np.arange(1024) % 200
    scores = chance_scores(y, y)
    assert scores.acc == pytest.approx(0.21, abs=0.01)
    assert scores.nmi == pytest.approx(chance_of_information(y), abs=0.002)
    assert scores.nmi > 0.65
    assert abs(scores.ari) < 0.005
    assert (scores.n, scores.n_classes, scores.n_clusters) == (1024, 200, 200)


def test_chance_keeps_the_sizes_of_clusters():
    """One cluster of all samples leaves nothing to chance: the largest class is right."""
    y = np.repeat([0, 1, 2], [50, 30, 20])
    assert chance_scores(y, np.zeros(100)).acc == pytest.approx(0.5)


def test_chance_depends_on_its_seed_alone():
    y = np.arange(60) % 4
    with global_random_state_kept():
        assert chance_scores(y, y, seed=1) == chance_scores(y, y, seed=1)
        assert chance_scores(y, y, seed=1) != chance_scores(y, y, seed=2)


@pytest.mark.parametrize("score", [clustering_accuracy, clustering_scores, chance_scores])
@pytest.mark.parametrize(
    ("true", "pred", "words"),
    [
        ([0, 1, 1], [0, 1], "`y_true` and `y_pred` must be equally long, got 3 and 2"),
        ([], [], "`y_true` and `y_pred` are empty"),
        ([[0, 1]], [0, 1], r"`y_true` must be a flat list of labels, got shape \(1, 2\)"),
        ([0, 1], [[0], [1]], r"`y_pred` must be a flat list of labels, got shape \(2, 1\)"),
        (0, [0], r"`y_true` must be a flat list of labels, got shape \(\)"),
    ],
)
def test_invalid_labels_raise(score, true, pred, words):
    with pytest.raises(ValueError, match=words):
        score(true, pred)


def test_noise_is_no_cluster():
    y, labels = [0, 0, 1, 1, 1], [0, 0, 1, 1, -1]
    assert clustering_scores(y, labels).n_clusters == chance_scores(y, labels).n_clusters == 2
    assert clustering_scores(["a", "b"], ["x", "y"]).n_clusters == 2


def test_no_draws_are_no_chance():
    with pytest.raises(ValueError, match="`n_draws` of chance_scores must be an integer >= 1"):
        chance_scores([0, 1], [0, 1], n_draws=0)
