"""Landmark spectral clustering against the graph formed in full."""

import numpy as np
import pytest
from sklearn.datasets import make_circles
from sklearn.metrics import adjusted_rand_score

from unbend.baselines import LandmarkSpectral


def _graph(X, r):
    """P Λ⁻¹ Pᵀ with every sample a landmark, one sample after another."""
    squared = ((X[:, None] - X[None]) ** 2).sum(-1)
    near = np.argsort(squared, axis=1, kind="stable")[:, :r]
    width = 2 * np.take_along_axis(squared, near, 1).mean()
    P = np.zeros_like(squared)
    for row, columns in enumerate(near):
        weight = np.exp(-squared[row, columns] / width)
        P[row, columns] = weight / weight.sum()
    return P @ np.diag(1 / P.sum(0)) @ P.T


def test_eigenvectors_are_those_of_the_whole_graph():
    X = np.random.default_rng(0).normal(size=(60, 3))
    W = _graph(X, 5)
    np.testing.assert_allclose(W.sum(1), 1)  # doubly stochastic, as the paper says
    model = LandmarkSpectral(4, random_state=0).fit(X)
    values, U = np.linalg.eigh(W)
    assert values[-4] - values[-5] > 1e-3
    wanted = U[:, -4:]
    found = model.embedding_
    np.testing.assert_allclose(found @ found.T, wanted @ wanted.T, atol=1e-8)


def test_rings_that_k_means_cannot_part_are_found_with_few_landmarks():
    X, y = make_circles(3000, factor=0.4, noise=0.03, random_state=0)
    labels = LandmarkSpectral(2, n_landmarks=150, random_state=0).fit(X).labels_
    assert adjusted_rand_score(y, labels) == 1
    again = LandmarkSpectral(2, n_landmarks=150, random_state=0).fit(X).labels_
    np.testing.assert_array_equal(labels, again)


def test_fewer_landmarks_than_clusters_are_rejected():
    with pytest.raises(ValueError, match="`n_landmarks` of LandmarkSpectral must be at least"):
        LandmarkSpectral(9, n_landmarks=5).fit(np.eye(20))


def test_copies_of_one_sample_are_one_weight_each():
    X = np.repeat([[0.0, 0.0], [5.0, 5.0]], 20, axis=0)
    labels = LandmarkSpectral(2, random_state=0).fit(X).labels_
    assert adjusted_rand_score(np.repeat([0, 1], 20), labels) == 1
