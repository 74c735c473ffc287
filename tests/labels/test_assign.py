"""Deterministic assignment of a spectral embedding."""

from __future__ import annotations

import numpy as np
import scipy.linalg
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import adjusted_rand_score

from unbend.labels.assign import assign, canonical, fill_empty, lloyd, normalise_rows, pivot_rows


def ideal_embedding(sizes: list[int], noise: float = 0.0, seed: int = 0) -> torch.Tensor:
    """Orthonormal indicator vectors of blocks, rotated, with noise."""
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(len(sizes)), sizes)
    U = np.eye(len(sizes))[y] / np.sqrt(np.array(sizes))[y][:, None]
    U = U @ np.linalg.qr(rng.standard_normal((len(sizes), len(sizes))))[0]
    return torch.from_numpy(U + noise * rng.standard_normal(U.shape) / np.sqrt(len(y)))


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(1, 60), min_size=2, max_size=12), st.integers(0, 100))
def test_blocks_of_any_size_are_found(sizes: list[int], seed: int) -> None:
    labels = assign(ideal_embedding(sizes, seed=seed), len(sizes))
    assert adjusted_rand_score(np.repeat(np.arange(len(sizes)), sizes), labels) == 1.0


def test_small_cluster_and_rows_of_almost_no_length() -> None:
    sizes = [400, 400, 20]
    U = ideal_embedding(sizes, noise=0.1)
    U[:15] *= 1e-9  # isolated samples: directions are rounding noise
    labels = assign(U, 3).numpy()
    assert adjusted_rand_score(np.repeat([0, 1, 2], sizes)[15:], labels[15:]) == 1.0


def test_rotation_of_the_embedding_does_not_matter() -> None:
    U = ideal_embedding([50, 30, 20, 10], noise=0.3)
    Q = torch.from_numpy(scipy.linalg.qr(np.random.default_rng(3).standard_normal((4, 4)))[0])
    first, second = assign(U, 4).numpy(), assign(U @ Q, 4).numpy()
    np.testing.assert_array_equal(canonical(first, 4)[first], canonical(second, 4)[second])


def test_pivots_span_the_rows() -> None:
    rows = normalise_rows(ideal_embedding([9, 5, 3, 3, 1], noise=0.05))
    pivots = pivot_rows(rows, 5)
    assert len(set(pivots.tolist())) == 5
    assert torch.linalg.cond(rows[pivots]) < 1.5  # nearly orthogonal


def test_lloyd_decreases_the_distance_and_leaves_no_cluster_empty() -> None:
    rows = torch.randn(200, 3, generator=torch.Generator().manual_seed(0))
    centres = torch.cat([rows[:4], torch.full((2, 3), 100.0)])  # two far from everything
    before = torch.cdist(rows, centres).amin(1).square().sum()
    labels, distances = lloyd(rows, centres)
    assert torch.bincount(labels, minlength=6).min() > 0
    assert distances.sum() < before


def test_empty_clusters_take_the_farthest_samples() -> None:
    labels = fill_empty(torch.tensor([0, 0, 0, 1]), torch.tensor([0.1, 5.0, 2.0, 9.0]), 4)
    assert labels.tolist() == [0, 2, 3, 1]  # sample 3 is alone in its cluster and stays


@given(st.lists(st.integers(0, 4), min_size=5, max_size=40), st.permutations(range(5)))
def test_numbering_is_canonical(labels: list[int], names: list[int]) -> None:
    y = np.array(labels)
    renamed = np.array(names)[y]
    ours = canonical(y, 5)[y]
    np.testing.assert_array_equal(ours, canonical(renamed, 5)[renamed])
    assert (np.diff(np.bincount(ours, minlength=5)) <= 0).all()
