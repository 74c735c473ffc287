import numpy as np
import pytest
from sklearn.neighbors import KNeighborsClassifier

from unbend.report import map2d
from unbend.report.map2d import lay_out, sample_by_cluster


def purity(positions, labels):
    """Share of samples whose four nearest neighbours on the map are mostly of their cluster."""
    near = KNeighborsClassifier(5).fit(positions, labels).predict(positions)
    return float((near == labels).mean())


@pytest.fixture(scope="module")
def labels():
    return np.random.default_rng(0).integers(8, size=450)


def test_orthogonal_subspaces_lie_apart(labels, make_features):
    positions = lay_out(make_features(labels, 8))
    assert positions.shape == (450, 2)
    assert np.abs(positions).max() == pytest.approx(1)
    assert purity(positions, labels) > 0.97


def test_result_ignores_sign_and_length_and_is_reproducible(labels, make_features, monkeypatch):
    monkeypatch.setattr(map2d, "_STEPS", 100)
    Z = make_features(labels, 8)[:300]
    first = lay_out(Z)
    signs = np.random.default_rng(1).choice([-1.0, 1.0], (300, 1)).astype(np.float32)
    np.testing.assert_array_equal(first, lay_out(Z * signs))
    np.testing.assert_array_equal(first, lay_out(Z * np.float32(4)))


def test_others_join_their_landmarks(labels, make_features):
    positions = lay_out(make_features(labels, 8), n_landmarks=200)
    assert purity(positions, labels) > 0.95


def test_forces_on_the_grid_are_those_of_all_pairs():
    Y = np.random.default_rng(0).standard_normal((400, 2)) * 3
    gap = Y[:, None] - Y[None]
    q = 1 / (1 + np.square(gap).sum(-1))
    np.fill_diagonal(q, 0)
    exact = (np.square(q)[..., None] * gap).sum(1) / q.sum()
    np.testing.assert_allclose(map2d._pairwise(Y), exact, atol=1e-12)
    error = np.linalg.norm(map2d._repulsion(Y) - exact) / np.linalg.norm(exact)
    assert error < 0.05


def test_neighbour_graph_is_symmetric_with_total_weight_one():
    Z = np.random.default_rng(0).standard_normal((90, 5)).astype(np.float32)
    edges = map2d._neighbours(Z)
    dense = np.zeros((90, 90))
    dense[edges.i, edges.j] = edges.p
    assert dense.sum() == pytest.approx(1)
    np.testing.assert_allclose(dense, dense.T)
    power = np.square(Z @ Z.T)
    np.fill_diagonal(power, -1)
    for i in range(90):
        assert (dense[i, np.argsort(-power[i])[:20]] > 0).all()


@pytest.mark.parametrize("n", [1, 2, 3, 5, 30])
def test_few_samples_get_finite_places(n):
    positions = lay_out(np.random.default_rng(0).standard_normal((n, 4)))
    assert positions.shape == (n, 2)
    assert np.isfinite(positions).all()


def test_identical_and_zero_rows_stay_finite():
    assert np.isfinite(lay_out(np.ones((40, 3)))).all()
    assert np.isfinite(lay_out(np.zeros((40, 3)))).all()


def test_bad_shape_is_named():
    with pytest.raises(ValueError, match="`Z` of lay_out must be"):
        lay_out(np.zeros((0, 3)))


def test_sample_shows_small_clusters():
    labels = np.array([0] * 5000 + [1] * 8 + [2] * 2)
    rows = sample_by_cluster(labels, 100)
    assert len(np.unique(rows)) == 100
    assert (np.diff(rows) > 0).all()
    assert np.bincount(labels[rows])[1:].tolist() >= [5, 2]
    assert (labels[rows] == 2).sum() == 2
    np.testing.assert_array_equal(sample_by_cluster(labels, 10_000), np.arange(len(labels)))
    assert len(sample_by_cluster(np.arange(50), 20)) == 20
