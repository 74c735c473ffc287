"""The unions of subspaces are what they claim to be."""

from __future__ import annotations

import numpy as np
import pytest
from tests.generators.subspaces import cluster_sizes, union_of_subspaces


@pytest.mark.parametrize("imbalance", [1.0, 5.0, 20.0])
def test_cluster_sizes_follow_the_imbalance(imbalance: float) -> None:
    sizes = cluster_sizes(10_000, 8, imbalance)
    assert sizes.sum() == 10_000
    assert sizes[0] / sizes[-1] == pytest.approx(imbalance, rel=0.03)


def test_without_noise_each_cluster_fills_its_subspace() -> None:
    data = union_of_subspaces(600, 4, d=20, dim=3, noise=0.0)
    for q in range(4):
        for rows in (data.Z[data.y == q], data.C[data.y == q]):
            np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, rtol=1e-5)
            outside = rows - rows @ data.bases[q].T @ data.bases[q]
            assert np.abs(outside).max() < 1e-5
            assert np.linalg.matrix_rank(rows, tol=1e-2) == 3


def test_codes_form_cones_and_signs_open_them() -> None:
    plain = union_of_subspaces(400, 2, spread=0.3, noise=0.1)
    signed = union_of_subspaces(400, 2, spread=0.3, noise=0.1, signed=True)
    for q in (0, 1):
        C, D = plain.C[plain.y == q], signed.C[signed.y == q]
        assert (C @ C.T).min() > 0.5
        assert (D @ D.T).min() < -0.5
        assert np.abs(D @ D.T).min() > 0.5


def test_same_seed_same_union() -> None:
    first, second, third = (union_of_subspaces(50, 3, seed=s) for s in (1, 1, 2))
    np.testing.assert_array_equal(first.C, second.C)
    assert not np.array_equal(first.C, third.C)
