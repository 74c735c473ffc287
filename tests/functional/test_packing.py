"""The two private steps under the compressed rate, each against plain torch."""

import pytest
import torch

from unbend.functional.conjugate_gradient import solve_one_plus
from unbend.functional.factorization import logdet_and_invert_
from unbend.functional.packing import (
    add_identity_,
    add_quadratic_gradient_,
    layout,
    pack_outer,
)

SIZES = [1, 2, 15, 16, 17, 31, 33, 64, 100]


def features(n: int, d: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(n, d, dtype=torch.float64, generator=generator)


def pack(Z: torch.Tensor) -> torch.Tensor:
    return pack_outer(Z, Z.new_empty(len(Z), layout(Z.shape[1]).size))


@pytest.mark.parametrize("d", SIZES)
def test_every_entry_of_the_lower_triangle_is_stored_once(d):
    # Random numbers: no two products coincide.
    z = features(1, d)
    packed = pack(z)[0]
    expected = torch.outer(z[0], z[0])[torch.tril_indices(d, d).unbind()]
    torch.testing.assert_close(packed.sort().values, expected.sort().values)


@pytest.mark.parametrize("d", SIZES)
def test_factorisation_equals_dense_linear_algebra(d):
    Z, X = features(5, d), features(3 * d, d, seed=1)
    weights = features(3 * d, 5, seed=2).exp()
    M = torch.eye(d, dtype=torch.float64) + torch.einsum("ij,ia,ib->jab", weights, X, X)
    packed = add_identity_(weights.mT @ pack(X), d)
    forward_only = packed.clone()
    logdet, failed = logdet_and_invert_(packed, d, invert=True)
    torch.testing.assert_close(logdet, torch.logdet(M))
    torch.testing.assert_close(logdet_and_invert_(forward_only, d, invert=False)[0], logdet)
    assert not failed
    # The packed inverse against a packed z zᵀ is the quadratic form z M⁻¹ z ...
    quadratic = torch.einsum("ia,jab,ib->ij", Z, torch.linalg.inv(M), Z)
    torch.testing.assert_close(pack(Z) @ packed.mT, quadratic)
    # ... whose gradient in z is 2 M⁻¹ z.
    gradient = add_quadratic_gradient_(torch.zeros_like(Z), packed, Z)
    torch.testing.assert_close(gradient, 2 * torch.linalg.solve(M, Z.unsqueeze(2)).squeeze(2))


@pytest.mark.parametrize("d", [3, 40])
def test_a_matrix_that_is_not_positive_definite_is_noticed(d):
    packed = add_identity_(-pack(10 * features(4, d)), d)
    _, failed = logdet_and_invert_(packed, d, invert=True)
    assert failed


def test_conjugate_gradients_solve_a_batch_of_different_difficulty():
    A = features(2 * 8, 8).view(2, 8, 8)
    Gamma = torch.linalg.qr(A @ A.mT).Q  # orthogonal: eigenvalues of modulus one
    Gamma = (Gamma + Gamma.mT) / 2 * torch.tensor([0.9, 0.0], dtype=torch.float64)[:, None, None]
    b = features(2, 8, seed=1)
    w, residual = solve_one_plus(Gamma, b, tol=1e-12, max_iter=50)
    eye = torch.eye(8, dtype=torch.float64)
    torch.testing.assert_close(w, torch.linalg.solve(eye + Gamma, b))
    assert residual <= 1e-12
