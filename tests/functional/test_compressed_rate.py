import sys

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.oracles.rates import compressed_rate_oracle, logdets_oracle

from unbend.functional import coding_rate, compressed_rate, doubly_stochastic

module = sys.modules[compressed_rate.__module__]


def problem(
    n: int, d: int, m: int | None = None, seed: int = 0
) -> tuple[torch.Tensor, torch.Tensor]:
    """Unit-norm features and a column-stochastic membership, float64."""
    generator = torch.Generator().manual_seed(seed)
    Z = torch.randn(n, d, dtype=torch.float64, generator=generator)
    logits = torch.randn(n, m or n, dtype=torch.float64, generator=generator)
    return torch.nn.functional.normalize(Z, dim=1), logits.softmax(0)


def formula(Z: torch.Tensor, Gamma: torch.Tensor, eps_sq: float) -> torch.Tensor:
    """The definition, left to autograd."""
    d = Z.shape[1]
    M = torch.eye(d, dtype=Z.dtype) + d / eps_sq * torch.einsum("ij,ia,ib->jab", Gamma, Z, Z)
    return torch.logdet(M).mean()


@pytest.fixture
def small_chunks(monkeypatch):
    """Make chunks, tiles and batches so small that even tiny problems need several of each."""
    monkeypatch.setattr(module, "CHUNK_NUMBERS", 1)
    monkeypatch.setattr(module, "TILE_NUMBERS", 1)
    monkeypatch.setattr(module, "BATCH_NUMBERS", 1)
    monkeypatch.setattr(module, "MIN_COLUMNS", 3)


@settings(max_examples=40, deadline=None)
@given(
    n=st.integers(1, 12),
    d=st.integers(1, 40),
    m=st.integers(1, 12),
    eps_sq=st.floats(0.05, 2),
    seed=st.integers(0, 99),
)
def test_equals_the_float64_oracle(n, d, m, eps_sq, seed):
    Z, Gamma = problem(n, d, m, seed)
    expected = compressed_rate_oracle(Z, Gamma, eps_sq)
    assert float(compressed_rate(Z, Gamma, eps_sq)) == pytest.approx(expected, rel=1e-11)
    single = compressed_rate(Z.float(), Gamma.float(), eps_sq)
    assert float(single) == pytest.approx(expected, rel=1e-5, abs=1e-6)


@settings(max_examples=25, deadline=None)
@given(n=st.integers(1, 40), d=st.integers(1, 70), seed=st.integers(0, 99))
def test_gradients_equal_autograd_of_the_definition(n, d, seed):
    Z, Gamma = (t.requires_grad_() for t in problem(n, d, seed=seed))
    ours = torch.autograd.grad(compressed_rate(Z, Gamma, 0.1), (Z, Gamma))
    truth = torch.autograd.grad(formula(Z, Gamma, 0.1), (Z, Gamma))
    for got, expected in zip(ours, truth, strict=True):
        torch.testing.assert_close(got, expected, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize(("n", "d"), [(5, 3), (3, 5), (1, 4), (4, 1), (2, 2), (3, 18)])
def test_gradients_pass_gradcheck(n, d):
    inputs = tuple(t.requires_grad_() for t in problem(n, d))
    assert torch.autograd.gradcheck(lambda Z, Gamma: compressed_rate(Z, Gamma, 0.3), inputs)


@pytest.mark.parametrize(("n", "d", "m"), [(20, 17, 20), (7, 33, 11), (10, 48, 10), (19, 5, 4)])
def test_chunks_change_nothing(n, d, m, small_chunks):
    Z, Gamma = (t.requires_grad_() for t in problem(n, d, m))
    value = compressed_rate(Z, Gamma, 0.1)
    torch.testing.assert_close(value, formula(Z, Gamma, 0.1))
    ours = torch.autograd.grad(value, (Z, Gamma))
    truth = torch.autograd.grad(formula(Z, Gamma, 0.1), (Z, Gamma))
    torch.testing.assert_close(ours, truth, rtol=1e-9, atol=1e-11)


def test_float32_is_within_the_promised_errors_at_the_papers_dimension():
    Z, Gamma = problem(160, 128)
    double = [t.clone().requires_grad_() for t in (Z, Gamma)]
    single = [t.float().requires_grad_() for t in (Z, Gamma)]
    truth = formula(double[0], double[1], 0.1)
    ours = compressed_rate(single[0], single[1], 0.1)
    assert float(ours.detach()) == pytest.approx(float(truth.detach()), rel=1e-5)
    truth.backward()
    ours.backward()
    for got, expected in zip(single, double, strict=True):
        error = (got.grad - expected.grad).norm() / expected.grad.norm()
        assert float(error) < 1e-4


def test_invariant_to_rotation_and_order():
    Z, Gamma = problem(12, 6)
    generator = torch.Generator().manual_seed(1)
    Q = torch.linalg.qr(torch.randn(6, 6, dtype=torch.float64, generator=generator)).Q
    order = torch.randperm(12, generator=generator)
    value = compressed_rate(Z, Gamma, 0.1)
    torch.testing.assert_close(compressed_rate(Z @ Q, Gamma, 0.1), value)
    torch.testing.assert_close(compressed_rate(Z[order], Gamma[order], 0.1), value)
    torch.testing.assert_close(compressed_rate(Z, Gamma[:, order], 0.1), value)


@settings(max_examples=25, deadline=None)
@given(n=st.integers(1, 25), d=st.integers(1, 25), eta=st.floats(0.05, 1), seed=st.integers(0, 99))
def test_never_above_the_coding_rate_for_doubly_stochastic_memberships(n, d, eta, seed):
    Z, _ = problem(n, d, seed=seed)
    Gamma = doubly_stochastic(Z @ Z.mT, eta, tol=1e-12).Gamma
    R, R_c = coding_rate(Z, 0.1), compressed_rate(Z, Gamma, 0.1)
    assert float(R_c) <= float(R) * (1 + 1e-10)


def test_uniform_membership_gives_the_coding_rate():
    Z, _ = problem(10, 4)
    uniform = torch.full((10, 10), 0.1, dtype=torch.float64)
    torch.testing.assert_close(compressed_rate(Z, uniform, 0.1), coding_rate(Z, 0.1))


def test_only_the_gradients_asked_for_are_computed(monkeypatch):
    evaluate, seen = module._evaluate, []

    def spy(Z, Gamma, alpha, wanted):
        result = evaluate(Z, Gamma, alpha, wanted)
        seen.append((result.grad_Z is not None, result.grad_Gamma is not None))
        return result

    monkeypatch.setattr(module, "_evaluate", spy)
    Z, Gamma = problem(6, 4)
    leaves = [t.clone().requires_grad_() for t in (Z, Gamma)]
    compressed_rate(leaves[0], Gamma, 0.1).backward()
    compressed_rate(Z, leaves[1], 0.1).backward()
    compressed_rate(Z, Gamma, 0.1)
    with torch.no_grad():
        compressed_rate(leaves[0], leaves[1], 0.1)
    assert seen == [(True, False), (False, True), (False, False), (False, False)]
    assert all(leaf.grad is not None for leaf in leaves)


def test_anchored_estimate_is_unbiased():
    Z, Gamma = problem(12, 5)
    logdets = torch.tensor(logdets_oracle(Z, Gamma, 0.1))
    generator = torch.Generator().manual_seed(0)
    draws = [compressed_rate(Z, Gamma, 0.1, n_anchors=4, generator=generator) for _ in range(800)]
    # The mean of 4 out of 12 values has this standard deviation (sampling without replacement).
    spread = logdets.std() * ((1 - 4 / 12) / 4) ** 0.5
    mean = torch.stack(draws).mean()
    assert abs(float(mean - logdets.mean())) < 4 * float(spread) / 800**0.5
    assert float(torch.stack(draws).std()) == pytest.approx(float(spread), rel=0.15)


def test_anchored_gradient_is_that_of_the_drawn_columns():
    Z, Gamma = (t.requires_grad_() for t in problem(9, 4))
    value = compressed_rate(Z, Gamma, 0.1, 3, torch.Generator().manual_seed(5))
    columns = torch.randperm(9, generator=torch.Generator().manual_seed(5))[:3]
    truth = formula(Z, Gamma[:, columns], 0.1)
    ours = torch.autograd.grad(value, (Z, Gamma))
    torch.testing.assert_close(ours, torch.autograd.grad(truth, (Z, Gamma)), rtol=1e-9, atol=1e-12)


def test_as_many_anchors_as_columns_is_exact_and_the_global_generator_is_untouched():
    Z, Gamma = problem(6, 3)
    state = torch.get_rng_state()
    torch.testing.assert_close(
        compressed_rate(Z, Gamma, 0.1, n_anchors=6), compressed_rate(Z, Gamma, 0.1)
    )
    compressed_rate(Z, Gamma, 0.1, n_anchors=2, generator=torch.Generator().manual_seed(0))
    assert torch.equal(state, torch.get_rng_state())


def test_float32_falls_back_to_float64_where_it_cannot_factorise():
    Z = torch.nn.functional.normalize(torch.ones(40, 32), dim=1).requires_grad_()
    Gamma = torch.full((40, 4), 1 / 40)
    value = compressed_rate(Z, Gamma, 1e-9)
    value.backward()
    expected = compressed_rate_oracle(Z.detach(), Gamma, 1e-9)
    assert value.dtype == torch.float32
    assert float(value.detach()) == pytest.approx(expected, rel=1e-4)
    assert Z.grad is not None
    assert Z.grad.isfinite().all()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast_and_half_precision_compute_in_float32(dtype):
    Z, Gamma = (t.to(dtype).requires_grad_() for t in problem(24, 10))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        value = compressed_rate(Z, Gamma, 0.1)
        value.backward()
    assert value.dtype == torch.float32
    expected = compressed_rate_oracle(Z.detach().double(), Gamma.detach().double(), 0.1)
    assert float(value.detach()) == pytest.approx(expected, rel=1e-6)
    assert Z.grad is not None
    assert Z.grad.dtype == dtype


def test_second_derivative_is_a_clear_error():
    Z, Gamma = (t.requires_grad_() for t in problem(5, 3))
    gradients = torch.autograd.grad(compressed_rate(Z, Gamma, 0.1), (Z, Gamma), create_graph=True)
    for gradient in gradients:
        with pytest.raises(NotImplementedError, match="compressed_rate has a first derivative"):
            gradient.sum().backward()


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"Gamma": torch.ones(5, 5)}, ValueError, r"one row for each of the 4 rows .* \(5, 5\)"),
        ({"Gamma": torch.ones(4)}, ValueError, r"`Gamma` of compressed_rate must have shape"),
        ({"Z": torch.ones(2, 4, 3)}, ValueError, r"got \(2, 4, 3\)"),
        ({"eps_sq": -1}, ValueError, r"`eps_sq` of compressed_rate must be > 0, got -1.0; try 0.1"),
        ({"n_anchors": 0}, ValueError, "`n_anchors` of compressed_rate must be >= 1, got 0"),
        ({"n_anchors": 1.5}, TypeError, "must be an integer, got float"),
        ({"n_anchors": 2}, ValueError, r"`generator` .* required with n_anchors=2, got None"),
        ({"Z": torch.full((4, 3), float("nan"))}, ValueError, "check them for NaN"),
        ({"Gamma": -torch.ones(4, 4)}, ValueError, "not positive definite"),
    ],
)
def test_invalid_input_raises(change, error, words):
    arguments = {"Z": torch.ones(4, 3), "Gamma": torch.full((4, 4), 0.25), "eps_sq": 0.1}
    with pytest.raises(error, match=words):
        compressed_rate(**{**arguments, **change})
