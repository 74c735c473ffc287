import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.oracles.rates import coding_rate_oracle

from unbend.functional import coding_rate


def random(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.randn(*shape, dtype=dtype, generator=torch.Generator().manual_seed(seed))


@settings(max_examples=40, deadline=None)
@given(
    n=st.integers(1, 20),
    d=st.integers(1, 20),
    eps_sq=st.floats(0.01, 2),
    seed=st.integers(0, 99),
)
def test_equals_the_float64_oracle_on_both_sides(n, d, eps_sq, seed):
    Z = random(n, d, seed=seed)
    expected = coding_rate_oracle(Z, eps_sq)
    assert float(coding_rate(Z, eps_sq)) == pytest.approx(expected, rel=1e-12)
    # The absolute part is the rounding of 1 + x, whose logarithm is then taken.
    single = float(coding_rate(Z.float(), eps_sq))
    assert single == pytest.approx(expected, rel=1e-5, abs=1e-6)


def test_orthonormal_features_have_a_closed_form():
    # n = d orthonormal rows: every eigenvalue of ZᵀZ is 1, so R = d log(1 + 1/ε²).
    Q = torch.linalg.qr(random(7, 7)).Q
    expected = 7 * torch.log(torch.tensor(1 + 1 / 0.3, dtype=torch.float64))
    torch.testing.assert_close(coding_rate(Q, 0.3), expected)


@pytest.mark.parametrize("shape", [(6, 4), (4, 6), (1, 3), (3, 1), (2, 5, 3), (2, 3, 3, 5)])
def test_gradient_is_exact(shape):
    Z = random(*shape).requires_grad_()
    assert torch.autograd.gradcheck(lambda z: coding_rate(z, 0.2), (Z,))


def test_batch_equals_its_elements():
    Z = random(3, 10, 4)
    one_by_one = torch.stack([coding_rate(z, 0.1) for z in Z])
    torch.testing.assert_close(coding_rate(Z, 0.1), one_by_one)


def test_invariant_to_rotation_and_order():
    Z = random(9, 5)
    Q = torch.linalg.qr(random(5, 5, seed=1)).Q
    order = torch.randperm(9, generator=torch.Generator().manual_seed(2))
    torch.testing.assert_close(coding_rate(Z @ Q, 0.1), coding_rate(Z, 0.1))
    torch.testing.assert_close(coding_rate(Z[order], 0.1), coding_rate(Z, 0.1))


def test_float32_falls_back_to_float64_where_it_cannot_factorise():
    # Identical features and a tiny ε²: the condition number is 1e12, far beyond float32.
    Z = torch.nn.functional.normalize(torch.ones(64, 32), dim=1).requires_grad_()
    value = coding_rate(Z, 32e-12)
    value.backward()
    assert float(value.detach()) == pytest.approx(coding_rate_oracle(Z.detach(), 32e-12), rel=1e-4)
    assert Z.grad is not None
    assert Z.grad.isfinite().all()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_computed_in_float32(dtype):
    Z = random(20, 6).to(dtype).requires_grad_()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        value = coding_rate(Z, 0.1)
        value.backward()
    assert value.dtype == torch.float32
    assert float(value.detach()) == pytest.approx(
        coding_rate_oracle(Z.detach().double(), 0.1), rel=1e-6
    )
    assert Z.grad is not None
    assert Z.grad.dtype == dtype


def test_second_derivative_is_a_clear_error():
    Z = random(5, 3).requires_grad_()
    (gradient,) = torch.autograd.grad(coding_rate(Z, 0.1), Z, create_graph=True)
    with pytest.raises(NotImplementedError, match="coding_rate has a first derivative only"):
        gradient.sum().backward()


@pytest.mark.parametrize(
    ("Z", "eps_sq", "error", "words"),
    [
        (torch.ones(3), 0.1, ValueError, r"`Z` of coding_rate .* got \(3,\)"),
        (torch.ones(0, 3), 0.1, ValueError, r"got \(0, 3\)"),
        (torch.ones(3, 3, dtype=torch.long), 0.1, TypeError, "torch.int64"),
        ([[1.0]], 0.1, TypeError, "got list"),
        (torch.ones(3, 3), 0.0, ValueError, r"`eps_sq` of coding_rate must be > 0, got 0.0; try"),
        (torch.ones(3, 3), float("nan"), ValueError, "got nan"),
        (torch.ones(3, 3), "0.1", TypeError, "must be a number, got str"),
        (torch.full((3, 3), float("nan")), 0.1, ValueError, "check Z for NaN"),
    ],
)
def test_invalid_input_raises(Z, eps_sq, error, words):
    with pytest.raises(error, match=words):
        coding_rate(Z, eps_sq)
