"""Principal directions and the bases that networks begin with."""

import pytest
import torch

from unbend.samples import principal_basis, whitening_basis


def wide(n, p, rank, noise=0.01, seed=0):
    """Rows near a subspace of ``rank`` dimensions, away from the origin."""
    generator = torch.Generator().manual_seed(seed)
    rows = torch.randn(n, rank, generator=generator) @ torch.randn(rank, p, generator=generator)
    return rows + noise * torch.randn(n, p, generator=generator) + 3


@pytest.mark.parametrize("shape", [(60, 8), (20, 50)])
def test_products_of_whitened_rows_are_ridge_codes(shape):
    """Against the closed form X (XᵀX + w n I)⁻¹ Xᵀ, up to one factor for all."""
    X = torch.randn(*shape, generator=torch.Generator().manual_seed(0)).double()
    rows = torch.nn.functional.normalize(X - X.mean(0), dim=1)
    basis = whitening_basis(X, "ridge:0.01")
    n, p = shape
    codes = rows @ torch.linalg.inv(rows.T @ rows + 0.01 * n * torch.eye(p).double()) @ rows.T
    mapped = rows @ basis
    found = mapped @ mapped.T
    assert float(mapped.square().mean()) == pytest.approx(1.0)
    factor = float(codes.diagonal().sum() / found.diagonal().sum())
    torch.testing.assert_close(factor * found, codes, rtol=0, atol=2e-3)


@pytest.mark.parametrize("shape", [(400, 300), (150, 300)])
def test_principal_directions_hold_the_variance_of_a_subspace(shape):
    """Against numpy's singular values: 99 % of the variance in as few multiples of 32 as can be."""
    X = wide(*shape, rank=40)
    basis = principal_basis(X, 256)
    assert basis.shape == (300, 64)
    torch.testing.assert_close(basis.T @ basis, torch.eye(64).double(), rtol=0, atol=1e-9)
    centred = (X - X.mean(0)).double()
    held = (centred @ basis).square().sum() / centred.square().sum()
    best = torch.linalg.svdvals(centred).square()
    assert float(held) == pytest.approx(float(best[:64].sum() / best.sum()), abs=1e-6)
    assert float(best[:32].sum() / best.sum()) < 0.99 <= float(held)


def test_no_more_directions_than_allowed_and_none_where_little_is_saved():
    assert principal_basis(torch.randn(900, 600), 128).shape == (600, 128)
    assert principal_basis(torch.randn(900, 200), 128) is None  # more than half of the columns
    assert principal_basis(wide(100, 128, rank=3), 128) is None  # narrow already


def test_a_number_of_directions_that_was_asked_for_is_taken():
    X = wide(100, 20, rank=3)
    torch.testing.assert_close(
        principal_basis(X, 256, 2).abs(),
        torch.linalg.svd((X - X.mean(0)).double()).Vh[:2].T.abs(),
        rtol=0,
        atol=1e-6,
    )


def test_standardised_rows_have_directions_of_their_own():
    """A column in a large unit has almost all the variance of the rows as they are."""
    X = torch.randn(300, 400, generator=torch.Generator().manual_seed(0))
    X[:, 7] *= 1000
    assert principal_basis(X, 256).shape == (400, 32)
    assert principal_basis(X, 128, standardize=True).shape == (400, 128)


def test_equal_rows_have_a_basis():
    assert torch.isfinite(principal_basis(torch.ones(50, 600), 256)).all()
