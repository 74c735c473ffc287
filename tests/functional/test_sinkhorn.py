import warnings

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.oracles.projection import projection_oracle, unrolled_projection

from unbend.exceptions import NotConvergedWarning
from unbend.functional import doubly_stochastic


def codes(n: int, d: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    C = torch.randn(n, d, dtype=torch.float64, generator=generator)
    return torch.nn.functional.normalize(C, dim=1).to(dtype)


def similarity(n: int, d: int, absolute: bool = False, seed: int = 0) -> torch.Tensor:
    C = codes(n, d, seed)
    S = C @ C.mT
    return S.abs() if absolute else S


def symmetric_part(A: torch.Tensor) -> torch.Tensor:
    return (A + A.mT) / 2


@settings(max_examples=40, deadline=None)
@given(
    n=st.integers(1, 15),
    d=st.integers(1, 6),
    eta=st.sampled_from([0.02, 0.05, 0.175, 1.0]),
    absolute=st.booleans(),
    seed=st.integers(0, 99),
)
def test_equals_the_trust_region_oracle(n, d, eta, absolute, seed):
    S = similarity(n, d, absolute, seed)
    result = doubly_stochastic(S, eta, tol=1e-11, max_iter=5000)
    expected = torch.from_numpy(projection_oracle(S, eta))
    torch.testing.assert_close(result.Gamma, expected, rtol=0, atol=1e-8)


@pytest.mark.parametrize("eta", [0.02, 0.05, 0.175, 1.0])
@pytest.mark.parametrize("absolute", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_converges_quickly_and_reports_its_true_error(eta, absolute, dtype):
    S = similarity(200, 16, absolute).to(dtype)
    result = doubly_stochastic(S, eta)
    rows, columns = result.Gamma.double().sum(1), result.Gamma.double().sum(0)
    assert result.converged
    assert result.n_iter <= 15
    assert float((rows - 1).abs().max()) < 1.2e-5
    assert float((columns - 1).abs().max()) < 1.2e-5
    assert result.marginal_error == pytest.approx(float((rows - 1).abs().max()), abs=2e-6)


def test_potential_rebuilds_gamma_and_warms_the_next_start():
    S, eta = similarity(50, 8), 0.1
    cold = doubly_stochastic(S, eta, tol=1e-10)
    u = cold.potential
    torch.testing.assert_close(((S + u[:, None] + u[None, :]) / eta).exp(), cold.Gamma)
    warm = doubly_stochastic(S + 1e-6 * similarity(50, 8, seed=1), eta, 1e-10, potential=u)
    assert warm.n_iter < cold.n_iter
    assert doubly_stochastic(S, eta, tol=1e-10, potential=u).n_iter == 0


def test_bad_warm_start_still_converges():
    S = similarity(30, 5)
    far = 500 * codes(30, 1).squeeze(1)
    result = doubly_stochastic(S, 0.05, tol=1e-10, potential=far)
    torch.testing.assert_close(result.Gamma, doubly_stochastic(S, 0.05, tol=1e-10).Gamma)


def test_two_samples_have_a_closed_form():
    S = torch.tensor([[1.0, 0.3], [0.3, 1.0]], dtype=torch.float64)
    Gamma = doubly_stochastic(S, 0.2, tol=1e-12).Gamma
    expected = torch.sigmoid(torch.tensor((1 - 0.3) / 0.2, dtype=torch.float64))
    torch.testing.assert_close(Gamma[0, 0], expected)


def test_batch_of_views_equals_its_elements():
    S = torch.stack([similarity(20, 4, seed=s) for s in range(3)])
    together = doubly_stochastic(S, 0.1, tol=1e-11)
    for view in range(3):
        alone = doubly_stochastic(S[view], 0.1, tol=1e-11)
        torch.testing.assert_close(together.Gamma[view], alone.Gamma, rtol=0, atol=1e-9)
    assert together.potential.shape == (3, 20)


def test_invariant_to_order_scale_and_shift():
    S = similarity(15, 4)
    order = torch.randperm(15, generator=torch.Generator().manual_seed(3))
    shift = codes(15, 1, seed=4).squeeze(1)
    Gamma = doubly_stochastic(S, 0.1, tol=1e-12).Gamma
    permuted = doubly_stochastic(S[order][:, order], 0.1, tol=1e-12).Gamma
    scaled = doubly_stochastic(7 * S, 0.7, tol=1e-12).Gamma
    shifted = doubly_stochastic(S + shift[:, None] + shift[None, :], 0.1, tol=1e-12).Gamma
    torch.testing.assert_close(permuted, Gamma[order][:, order])
    torch.testing.assert_close(scaled, Gamma)
    torch.testing.assert_close(shifted, Gamma, rtol=0, atol=1e-10)


@pytest.mark.parametrize("eta", [0.05, 0.175, 1.0])
@pytest.mark.parametrize("absolute", [False, True])
def test_implicit_gradient_equals_the_unrolled_one(eta, absolute):
    S = similarity(12, 4, absolute).requires_grad_()
    G = similarity(12, 12, seed=1) + codes(12, 12, seed=2)  # not symmetric
    (implicit,) = torch.autograd.grad(doubly_stochastic(S, eta, tol=1e-13).Gamma, S, G)
    (unrolled,) = torch.autograd.grad(unrolled_projection(S, eta, 200), S, G)
    torch.testing.assert_close(
        symmetric_part(implicit), symmetric_part(unrolled), rtol=1e-9, atol=1e-10
    )


@pytest.mark.parametrize("n", [1, 2, 6])
def test_gradient_through_codes_equals_finite_differences(n):
    C = codes(n, 3).requires_grad_()

    def project(C: torch.Tensor) -> torch.Tensor:
        return doubly_stochastic(C @ C.mT, 0.2, tol=1e-14).Gamma

    assert torch.autograd.gradcheck(project, (C,), atol=1e-6)


def test_gradient_of_a_batch_equals_its_elements():
    S = torch.stack([similarity(9, 3, seed=s) for s in range(2)]).requires_grad_()
    G = torch.stack([codes(9, 9, seed=s) for s in range(2)])
    (together,) = torch.autograd.grad(doubly_stochastic(S, 0.1, tol=1e-13).Gamma, S, G)
    for view in range(2):
        s = S[view].detach().requires_grad_()
        (alone,) = torch.autograd.grad(doubly_stochastic(s, 0.1, tol=1e-13).Gamma, s, G[view])
        torch.testing.assert_close(together[view], alone, rtol=1e-8, atol=1e-11)


def test_float32_gradient_agrees_with_float64():
    S, G = similarity(100, 16), codes(100, 100, seed=1)
    gradients = []
    for dtype in (torch.float32, torch.float64):
        s = S.to(dtype).requires_grad_()
        Gamma = doubly_stochastic(s, 0.175, tol=1e-6).Gamma
        gradients.append(torch.autograd.grad(Gamma, s, G.to(dtype))[0].double())
    error = (gradients[0] - gradients[1]).norm() / gradients[1].norm()
    assert float(error) < 1e-5


EXTREMES = {
    "one sample": torch.tensor([[0.7]]),
    "one huge sample": torch.tensor([[1e20]]),
    "all equal": torch.zeros(6, 6),
    "identical rows": torch.ones(40, 3).div(3**0.5) @ torch.ones(3, 40).div(3**0.5),
    "duplicated samples": similarity(8, 4).repeat(3, 3).float(),
    "huge": 1e30 * similarity(6, 3).float(),
    "large": 1e4 * similarity(6, 3).float(),
    "negative": -1e4 * torch.ones(4, 4),
    "one outlier": torch.block_diag(torch.ones(5, 5), torch.tensor([[-1e3]])),
    "scales far apart": torch.diag(torch.tensor([1e10, 1e-10, 1.0, 1e4])),
    "only off-diagonal": torch.tensor([[0.0, 1e3], [1e3, 0.0]]),
    "tiny": 1e-38 * torch.eye(5),
}


@pytest.mark.parametrize("name", EXTREMES)
@pytest.mark.parametrize("eta", [1e-3, 0.02, 1.0, 1e6])
def test_extreme_similarities_give_finite_results(name, eta):
    S = EXTREMES[name].clone().requires_grad_()
    with warnings.catch_warnings():
        # At S/η = 1e9 the exponents of float32 are integers: marginals cannot all be met.
        warnings.simplefilter("ignore", NotConvergedWarning)
        result = doubly_stochastic(S, eta)
        result.Gamma.square().sum().backward()
    Gamma = result.Gamma.detach()
    assert Gamma.isfinite().all()
    assert result.potential.isfinite().all()
    assert float(Gamma.min()) >= 0
    assert float((Gamma.sum(1) - 1).abs().max()) <= max(2e-5, 1.1 * result.marginal_error)
    assert S.grad is not None
    assert S.grad.isfinite().all()


@pytest.mark.parametrize("eta", [0.02, 0.175, 1.0])
def test_identical_samples_share_evenly(eta):
    Gamma = doubly_stochastic(EXTREMES["identical rows"], eta).Gamma
    torch.testing.assert_close(Gamma, torch.full((40, 40), 1 / 40), rtol=1e-4, atol=0)


def test_duplicates_divide_the_membership_of_the_original():
    S = similarity(8, 4)
    once = doubly_stochastic(S, 0.1, tol=1e-12).Gamma
    thrice = doubly_stochastic(S.repeat(3, 3), 0.1, tol=1e-12).Gamma
    torch.testing.assert_close(thrice, once.repeat(3, 3) / 3, rtol=0, atol=1e-10)


def test_warns_with_the_number_when_not_converged():
    S = similarity(30, 4)
    with pytest.warns(NotConvergedWarning, match=r"marginal error \d\.\de-\d+ after 2 updates"):
        result = doubly_stochastic(S, 0.1, max_iter=2)
    assert not result.converged
    assert result.n_iter == 2
    rows = result.Gamma.sum(1)
    assert result.marginal_error == pytest.approx(float((rows - 1).abs().max()), rel=1e-9)


def test_autocast_and_half_precision_compute_in_float32():
    C = codes(32, 8, dtype=torch.bfloat16).requires_grad_()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        result = doubly_stochastic(C @ C.mT, 0.175)
        result.Gamma.square().sum().backward()
    assert result.Gamma.dtype == torch.float32
    assert result.converged
    assert C.grad is not None
    assert C.grad.isfinite().all()


def test_result_is_frozen_and_only_gamma_carries_gradients():
    result = doubly_stochastic(similarity(5, 3).requires_grad_(), 0.1)
    assert result.Gamma.requires_grad
    assert not result.potential.requires_grad
    with pytest.raises(AttributeError, match="converged"):
        result.converged = False


def test_input_is_not_changed():
    S = similarity(10, 3)
    before = S.clone()
    doubly_stochastic(S, 0.1)
    assert torch.equal(S, before)


def test_second_derivative_is_a_clear_error():
    S = similarity(5, 3).requires_grad_()
    loss = doubly_stochastic(S, 0.1).Gamma.square().sum()
    (gradient,) = torch.autograd.grad(loss, S, create_graph=True)
    with pytest.raises(NotImplementedError, match="doubly_stochastic has a first derivative"):
        gradient.sum().backward()


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"eta": 0.0}, ValueError, "`eta` of doubly_stochastic must be > 0, got 0.0; try 0.1"),
        ({"eta": float("inf")}, ValueError, "got inf"),
        ({"tol": -1e-5}, ValueError, "`tol` of doubly_stochastic must be > 0"),
        ({"max_iter": 0}, ValueError, "`max_iter` of doubly_stochastic must be >= 1, got 0"),
        ({"S": torch.ones(3, 4)}, ValueError, r"must be square, got shape \(3, 4\)"),
        ({"S": torch.tensor([[1.0, 0.5], [0.0, 1.0]])}, ValueError, "must be symmetric"),
        ({"S": torch.full((3, 3), float("nan"))}, ValueError, "must be finite"),
        ({"S": torch.full((3, 3), float("inf"))}, ValueError, "must be finite"),
        ({"S": torch.full((3, 3), 1e38)}, ValueError, "below overflow"),
        ({"potential": torch.zeros(4)}, ValueError, r"must have shape \(3,\), got \(4,\)"),
        ({"potential": torch.full((3,), float("nan"))}, ValueError, "`potential` .* finite"),
    ],
)
def test_invalid_input_raises(change, error, words):
    with pytest.raises(error, match=words):
        doubly_stochastic(**{"S": torch.eye(3), "eta": 0.1, **change})
