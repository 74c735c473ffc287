import math
import warnings

import numpy as np
import pytest
import torch

from unbend.metrics import (
    cluster_ranks,
    largest_subspace_cosine,
    numerical_rank,
    similarity_blocks,
)


def random(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape)


def unit(Z: np.ndarray) -> np.ndarray:
    return Z / np.linalg.norm(Z, axis=1, keepdims=True)


def rank_by_svd(Z: np.ndarray, energy: float) -> int:
    power = np.linalg.svd(np.asarray(Z, float), compute_uv=False) ** 2
    for r in range(1, len(power) + 1):
        if power[:r].sum() / power.sum() > energy:
            return r
    raise AssertionError


# ---------------------------------------------------------------- rank


@pytest.mark.parametrize("shape", [(50, 8), (5, 20), (1, 4), (9, 1), (12, 12)])
@pytest.mark.parametrize("energy", [0.5, 0.8, 0.95, 0.999])
@pytest.mark.parametrize("decay", [0.3, 0.8, 1.0])
def test_rank_by_singular_values(shape, energy, decay):
    Z = random(*shape) * decay ** np.arange(shape[1])
    assert numerical_rank(Z, energy) == rank_by_svd(Z, energy)


@pytest.mark.parametrize(
    ("Z", "rank"),
    [
        (np.eye(7), 7),  # 6/7 of the energy is less than 95 %
        (np.eye(20), 20),  # 19/20 is 95 % and does not exceed it
        (np.eye(21), 20),
        (np.ones((30, 5)), 1),
        (np.zeros((4, 3)), 0),
        (np.diag([1.0, 0.1]), 1),
    ],
)
def test_rank_of_known_matrices(Z, rank):
    assert numerical_rank(Z) == rank


def test_rank_does_not_depend_on_rotation_scale_or_order():
    Z = random(40, 6) * 0.6 ** np.arange(6)
    Q = np.linalg.qr(random(6, 6, seed=1))[0]
    assert numerical_rank(1e-6 * (Z @ Q)[::-1]) == numerical_rank(Z)


@pytest.mark.parametrize(
    "kind",
    [
        lambda Z: Z,
        lambda Z: Z.astype(np.float32),
        lambda Z: Z.tolist(),
        lambda Z: torch.from_numpy(Z).requires_grad_(),
        lambda Z: torch.from_numpy(Z).bfloat16(),
        lambda Z: np.broadcast_to(Z, Z.shape),  # read-only
    ],
)
def test_any_kind_of_matrix_is_taken(kind):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert numerical_rank(kind(np.diag([3.0, 3.0, 0.1]))) == 2


@pytest.mark.parametrize(
    "labels", [[0, 0, 0, 1, 1], list("aaabb"), np.array([5, 5, 5, 7, 7], object)]
)
def test_rank_of_each_cluster(labels):
    Z = np.array([[1.0, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 1], [2, 2, 2]])
    assert cluster_ranks(Z, labels) == {labels[0]: 3, labels[4]: 1}


# ---------------------------------------------------------------- angles


@pytest.mark.parametrize("degrees", [0.0, 10.0, 45.0, 89.0, 90.0])
@pytest.mark.parametrize("seed", range(3))
def test_two_planes_at_a_known_angle(degrees, seed):
    """Planes (e1, e2) and (e3, cos t e1 + sin t e4) in a turned space of six dimensions."""
    t = math.radians(degrees)
    e = np.eye(6)
    first, second = (
        np.stack([e[0], e[1]]),
        np.stack([e[2], math.cos(t) * e[0] + math.sin(t) * e[3]]),
    )
    Q = np.linalg.qr(random(6, 6, seed=seed))[0]
    Z = np.concatenate([random(30, 2, seed=1) @ first, random(20, 2, seed=2) @ second]) @ Q
    y = np.repeat([0, 1], [30, 20])
    assert largest_subspace_cosine(Z, y) == pytest.approx(math.cos(t), abs=1e-9)


def test_the_closest_pair_of_three_clusters_counts():
    t = math.radians(20)
    Z = np.array([[1.0, 0, 0], [0, 1, 0], [0, math.cos(t), math.sin(t)]])
    assert largest_subspace_cosine(Z, [0, 1, 2]) == pytest.approx(math.cos(t))


def test_directions_of_little_energy_do_not_count():
    """One per cent of noise along the other cluster is no part of a subspace."""
    Z = np.array([[1.0, 0.0], [1.0, 0.05], [1.0, -0.05], [0.0, 1.0]])
    assert largest_subspace_cosine(Z, [0, 0, 0, 1]) < 1e-9


def test_features_of_zero_make_no_angle():
    assert largest_subspace_cosine([[0.0, 0.0], [1.0, 0.0]], [0, 1]) == 0


def test_one_cluster_makes_no_angle():
    with pytest.raises(ValueError, match="`y` has only one cluster; an angle needs two"):
        largest_subspace_cosine(np.eye(3), [1, 1, 1])


# ---------------------------------------------------------------- |Z Zᵀ|


@pytest.mark.parametrize("n", [7, 1024, 1025, 2100])
def test_similarity_by_the_dense_formula(n):
    Z = unit(random(n, 5))
    y = np.random.default_rng(1).integers(3, size=n)
    cosine = np.abs(Z @ Z.T)
    same = y[:, None] == y[None, :]
    off = ~np.eye(n, dtype=bool)
    found = similarity_blocks(Z, y)
    assert found.within == pytest.approx(cosine[same & off].mean(), rel=1e-12)
    assert found.between == pytest.approx(cosine[~same].mean(), rel=1e-12)


def test_similarity_of_orthogonal_lines():
    Z = np.repeat(np.eye(3), 4, axis=0) * np.array([1, -1] * 6)[:, None]
    assert similarity_blocks(Z, np.repeat([0, 1, 2], 4)) == (1, 0)


@pytest.mark.parametrize("measure", [cluster_ranks, largest_subspace_cosine, similarity_blocks])
@pytest.mark.parametrize(
    ("Z", "y", "words"),
    [
        (np.eye(3), [0, 1], r"`y` must have one label per row of Z, got \(2,\) for 3"),
        (np.eye(3), [[0, 1, 2]], r"`y` must have one label per row of Z, got \(1, 3\) for 3"),
        (np.ones(3), [0, 1, 2], r"`Z` must be \(n, d\), got shape \(3,\)"),
        (np.ones((3, 1, 1)), [0, 1, 2], r"`Z` must be \(n, d\), got shape \(3, 1, 1\)"),
    ],
)
def test_invalid_input_raises(measure, Z, y, words):
    with pytest.raises(ValueError, match=words):
        measure(Z, y)
