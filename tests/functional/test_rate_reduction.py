import pytest
import torch
from tests.oracles.rates import coding_rate_oracle, compressed_rate_oracle

from unbend.functional import coding_rate, compressed_rate, doubly_stochastic, rate_reduction


def problem(n: int, d: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(n + d)
    Z = torch.randn(n, d, dtype=torch.float64, generator=generator)
    Z = torch.nn.functional.normalize(Z, dim=1)
    return Z, doubly_stochastic(Z @ Z.mT, 0.2, tol=1e-12).Gamma


@pytest.mark.parametrize(("n", "d"), [(12, 5), (5, 12), (1, 1), (6, 6)])
def test_terms_equal_the_oracles(n, d):
    Z, Gamma = problem(n, d)
    result = rate_reduction(Z, Gamma, 0.1)
    R, R_c = coding_rate_oracle(Z, 0.1), compressed_rate_oracle(Z, Gamma, 0.1)
    expected = pytest.approx((R - R_c, R, R_c), rel=1e-10, abs=1e-12)
    assert tuple(float(t) for t in result) == expected


@pytest.mark.parametrize(("n", "d"), [(12, 5), (5, 12)])
def test_gradients_are_those_of_the_two_terms(n, d):
    Z, Gamma = (t.requires_grad_() for t in problem(n, d))
    together = torch.autograd.grad(rate_reduction(Z, Gamma, 0.1).delta, (Z, Gamma))
    apart = torch.autograd.grad(coding_rate(Z, 0.1) - compressed_rate(Z, Gamma, 0.1), (Z, Gamma))
    torch.testing.assert_close(together, apart)


def test_orthogonal_clusters_have_a_closed_form():
    # k orthogonal directions with m samples each and the ideal block membership: every M_j is
    # I + (d/ε²) e eᵀ and the whole Gram matrix is m I.
    k, m, eps_sq = 4, 5, 0.1
    Z = torch.eye(k, dtype=torch.float64).repeat_interleave(m, 0)
    Gamma = torch.block_diag(*[torch.full((m, m), 1 / m, dtype=torch.float64)] * k)
    result = rate_reduction(Z, Gamma, eps_sq)
    R = k * torch.log(torch.tensor(1 + 1 / eps_sq, dtype=torch.float64))
    R_c = torch.log(torch.tensor(1 + k / eps_sq, dtype=torch.float64))
    torch.testing.assert_close(result.R, R)
    torch.testing.assert_close(result.R_c, R_c)
    torch.testing.assert_close(result.delta, R - R_c)


def test_anchors_reach_the_compressed_rate_only():
    Z, Gamma = problem(10, 4)
    result = rate_reduction(Z, Gamma, 0.1, 3, torch.Generator().manual_seed(1))
    R_c = compressed_rate(Z, Gamma, 0.1, 3, torch.Generator().manual_seed(1))
    torch.testing.assert_close(result.R_c, R_c)
    torch.testing.assert_close(result.R, coding_rate(Z, 0.1))


def test_errors_name_this_function():
    with pytest.raises(ValueError, match="`eps_sq` of rate_reduction must be > 0"):
        rate_reduction(torch.ones(3, 2), torch.ones(3, 3), 0)
