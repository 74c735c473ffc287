"""Coding length and outlier residual against plain float64 and autograd."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from tests.generators.subspaces import union_of_subspaces

from unbend.functional import coding_rate
from unbend.labels.subspaces import (
    cluster_rates,
    coding_length,
    coding_lengths,
    second_moments,
    subspace_residuals,
)


def features(n: int = 300, k: int = 4, d: int = 20) -> tuple[torch.Tensor, torch.Tensor]:
    data = union_of_subspaces(n, k, d=d, dim=3, imbalance=30.0, seed=1)
    return torch.from_numpy(data.Z).double(), torch.from_numpy(data.y)


def slow_length(Z: torch.Tensor, y: torch.Tensor, k: int, eps_sq: float) -> float:
    """The formula, cluster by cluster, by the paper's coding rate (which has no ½)."""
    total, d = 0.0, Z.shape[1]
    for q in range(k):
        Z_q = Z[y == q]
        total += (len(Z_q) + d) * 0.5 * float(coding_rate(Z_q, eps_sq))
        total -= len(Z_q) * math.log(len(Z_q) / len(Z))
    return total


@pytest.mark.parametrize("eps_sq", [0.1, 1.0])
def test_coding_length_matches_its_formula(eps_sq: float) -> None:
    Z, y = features()
    expected = slow_length(Z, y, 4, eps_sq)
    moments, counts = second_moments(Z, y, 4)
    assert counts.min() < 20 < counts.max()  # both sides of the small-cluster shortcut
    assert float(coding_lengths(moments, counts, 300, eps_sq).sum()) == pytest.approx(expected)
    assert coding_length(Z, y, 4, eps_sq) == pytest.approx(expected, rel=1e-10)


def test_coding_length_of_repeated_data() -> None:
    Z, y = features()
    thrice = coding_length(Z.repeat(3, 1), y.repeat(3), 4, 0.1)
    assert coding_length(Z, y, 4, 0.1, total=900) == pytest.approx(thrice, rel=1e-10)


def test_true_clusters_have_the_shorter_code() -> None:
    Z, y = features(3000)
    whole = coding_length(Z, torch.zeros_like(y), 1, 0.1)
    halved = coding_length(Z, 2 * y + torch.arange(3000) % 2, 8, 0.1)
    assert coding_length(Z, y, 4, 0.1) < min(whole, halved)


def test_residual_is_the_smallest_quadratic_form() -> None:
    Z, y = features()
    new = torch.nn.functional.normalize(
        torch.randn(30, 20, generator=torch.Generator().manual_seed(0)).double(), dim=1
    )
    costs = []
    for q in range(4):
        Z_q = Z[y == q].numpy()
        M = np.eye(20) + 20 / (0.1 * len(Z_q)) * Z_q.T @ Z_q
        costs.append(np.einsum("id,de,ie->i", new.numpy(), np.linalg.inv(M), new.numpy()))
    found = subspace_residuals(new, Z, y, 4, 0.1)
    np.testing.assert_allclose(found, np.min(costs, axis=0), rtol=1e-9)
    # An empty cluster is no subspace.
    torch.testing.assert_close(subspace_residuals(new, Z, y, 6, 0.1), found)


def test_residual_is_the_derivative_of_the_coding_rate() -> None:
    """d/dw of logdet(I + d/(ε² m) (ZᵀZ + w zzᵀ)) at w = 0 is d/(ε² m) zᵀM⁻¹z."""
    Z, _ = features()
    z, scale = Z[7], 20 / (0.1 * 300)
    w = torch.zeros((), dtype=Z.dtype, requires_grad=True)
    M = torch.eye(20, dtype=Z.dtype) + scale * (Z.T @ Z + w * torch.outer(z, z))
    torch.logdet(M).backward()
    one = torch.zeros(300, dtype=torch.int64)
    assert float(subspace_residuals(z[None], Z, one, 1, 0.1)) == pytest.approx(
        float(w.grad) / scale, rel=1e-9
    )


def test_random_directions_are_farther_than_members() -> None:
    data = union_of_subspaces(2000, 5, noise=0.2, seed=0)
    Z, y = torch.from_numpy(data.Z), torch.from_numpy(data.y)

    def residual(rows: torch.Tensor) -> torch.Tensor:
        return subspace_residuals(rows, Z, y, 5, 0.1)

    fresh = data.bases[:, 0]  # unseen members
    generator = torch.Generator().manual_seed(0)
    random = torch.nn.functional.normalize(torch.randn(500, 128, generator=generator), dim=1)
    assert residual(random).min() > 2 * residual(Z).max()
    assert residual(torch.from_numpy(fresh)).max() < 0.01
    assert residual(Z).min() > 0
    assert residual(random).max() <= 1


def test_rotating_the_features_changes_nothing() -> None:
    Z, y = features()
    generator = torch.Generator().manual_seed(0)
    Q = torch.linalg.qr(torch.randn(20, 20, dtype=Z.dtype, generator=generator))[0]
    plain = subspace_residuals(Z, Z, y, 4, 0.1)
    turned = subspace_residuals(Z @ Q, Z @ Q, y, 4, 0.1)
    torch.testing.assert_close(plain, turned)


@pytest.mark.parametrize("narrow", [0, 128])
@pytest.mark.parametrize("entries", [1, 2**24])
def test_rates_of_clusters_match_their_definition(monkeypatch, narrow: int, entries: int) -> None:
    """By either side of the features, for some clusters at a time, and for an empty one."""
    monkeypatch.setattr("unbend.labels.subspaces._NARROW", narrow)
    monkeypatch.setattr("unbend.labels.subspaces._ENTRIES", entries)
    Z, y = features()
    rates, counts = cluster_rates(Z, y, 5, 0.3)
    expected = [float(coding_rate(Z[y == q], 0.3)) for q in range(4)]
    np.testing.assert_allclose(rates, [*expected, 0.0], rtol=1e-10)
    np.testing.assert_array_equal(counts, np.bincount(y, minlength=5))
