"""UMAP with HDBSCAN, and EVoC: noise, numbers of clusters, and what is missing."""

import sys

import numpy as np
import pytest
from sklearn.metrics import homogeneity_score
from sklearn.utils.estimator_checks import parametrize_with_checks

from unbend.baselines import UMAPHDBSCAN, EVoC, density
from unbend.baselines.density import _nearest, _numbered
from unbend.metrics import clustering_accuracy

BOTH = [UMAPHDBSCAN, EVoC]


def groups(k=4, each=60, d=24, seed=0):
    rng = np.random.default_rng(seed)
    centres = np.linalg.qr(rng.normal(size=(d, k)))[0].T * 8
    y = rng.permutation(np.repeat(np.arange(k), each))
    return (centres[y] + 0.5 * rng.normal(size=(k * each, d))).astype(np.float32), y


@pytest.mark.slow
@pytest.mark.parametrize("n_clusters", [None, 4])
@pytest.mark.parametrize("cls", BOTH)
def test_separated_groups_are_found(cls, n_clusters):
    """Clusters are parts of groups, and with the number given the groups; seeds repeat."""
    pytest.importorskip("umap")
    pytest.importorskip("evoc")
    X, y = groups()
    model = cls(n_clusters, random_state=0).fit(X)
    inside = model.labels_ >= 0
    assert inside.mean() > (0.3 if cls is EVoC else 0.7)  # EVoC leaves much of few samples out
    assert homogeneity_score(y[inside], model.labels_[inside]) == pytest.approx(1.0)
    if n_clusters:
        assert model.labels_.max() == 3
        assert clustering_accuracy(y[inside], model.labels_[inside]) == 1.0
    np.testing.assert_array_equal(cls(n_clusters, random_state=0).fit(X).labels_, model.labels_)


@pytest.mark.slow
@parametrize_with_checks([cls() for cls in BOTH])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_scikit_learn_contract(estimator, check):
    check(estimator)


@pytest.mark.parametrize(("cls", "package"), [(UMAPHDBSCAN, "umap"), (EVoC, "evoc")])
def test_a_missing_package_is_named_with_the_way_to_get_it(cls, package, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError, match=rf"{cls.__name__} needs {package}: pip install"):
        cls().fit(np.random.default_rng(0).normal(size=(20, 8)))


def test_clusters_are_numbered_by_size_and_noise_stays():
    assert _numbered(np.array([-1, 0, 1, 1, -1, 2, 2, 2])).tolist() == [-1, 2, 1, 1, -1, 0, 0, 0]
    assert _numbered(np.full(3, -1)).tolist() == [-1, -1, -1]


def test_the_labelling_nearest_to_the_number_is_taken():
    two, three, noisy = (np.array(x) for x in ([0, 0, 1, 1], [0, 1, 2, 2], [0, 1, -1, -1]))
    assert _nearest([two, three], 3) is three
    assert _nearest([noisy, two], 2) is two


def test_a_number_reaches_below_the_most_stable_clusters(monkeypatch):
    """Two far pairs of groups: HDBSCAN prefers the pairs, four clusters are the groups."""
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(4), 100)
    X = np.array([[0, 0], [4, 0], [1000, 0], [1004, 0]])[y] + rng.normal(size=(400, 2))
    monkeypatch.setattr(density, "umap_space", lambda estimator, X: X)
    assert UMAPHDBSCAN().fit(X).labels_.max() == 1
    model = UMAPHDBSCAN(4).fit(X)
    inside = model.labels_ >= 0
    assert inside.mean() > 0.5
    assert model.labels_.max() == 3
    assert clustering_accuracy(y[inside], model.labels_[inside]) > 0.98


@pytest.mark.parametrize(
    ("estimator", "word"),
    [
        (UMAPHDBSCAN(n_clusters=0), "n_clusters"),
        (UMAPHDBSCAN(min_cluster_size=1), "min_cluster_size"),
        (EVoC(noise_level=2), "noise_level"),
        (EVoC(n_clusters="auto"), "n_clusters"),
    ],
)
def test_bad_parameters_are_named_with_a_remedy(estimator, word):
    with pytest.raises(ValueError, match=f"`{word}` of {type(estimator).__name__} must be .*got"):
        estimator.fit(np.eye(4))
