"""Losses of the deep peers against loops in float64 that follow the formulas word by word."""

import math

import numpy as np
import pytest
import torch
from tests.oracles.rates import coding_rate_oracle

from unbend.baselines.cpp import CPP
from unbend.baselines.membership_rate import membership_rate
from unbend.baselines.nmce import gumbel_softmax, nmce_objective
from unbend.baselines.prodsc import prodsc_objective, self_expression
from unbend.config import Stage2Config
from unbend.labels.subspaces import coding_length


def unit(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(*shape, generator=generator, dtype=torch.float64)
    return torch.nn.functional.normalize(x, dim=-1)


def membership_rate_oracle(Z, Pi, eps_sq):
    """Eq. (1): one cluster, one sample at a time."""
    n, d = Z.shape
    total = 0.0
    for column in Pi.T:
        n_j = column.sum()
        M = np.eye(d)
        for weight, z in zip(column, Z, strict=True):
            M += d / (n_j * eps_sq) * weight * np.outer(z, z)
        total += n_j / n * np.linalg.slogdet(M)[1]
    return total


def test_membership_rate_matches_its_formula():
    """Soft memberships, more samples than dimensions and fewer."""
    for n, d, k in ((30, 5, 3), (4, 9, 2)):
        Z, Pi = unit(n, d), torch.rand(n, k, dtype=torch.float64).softmax(1)
        ours = float(membership_rate(Z, Pi, 0.2))
        assert ours == pytest.approx(membership_rate_oracle(Z.numpy(), Pi.numpy(), 0.2), rel=1e-12)


def test_membership_rate_of_hard_clusters_is_the_mean_coding_rate():
    """One-hot Π: the weighted mean of R over clusters; an empty column counts nothing."""
    Z, labels = unit(20, 6), torch.arange(20) % 2
    Pi = torch.nn.functional.one_hot(labels, 3).double()
    parts = [coding_rate_oracle(Z[labels == j].numpy(), 0.5) for j in (0, 1)]
    assert float(membership_rate(Z, Pi, 0.5)) == pytest.approx(np.mean(parts), rel=1e-12)


def test_membership_rate_gradients():
    """Autograd agrees with finite differences in Z and in Π."""
    Z, Pi = unit(7, 3).requires_grad_(), unit(7, 2).abs().requires_grad_()
    assert torch.autograd.gradcheck(lambda z, p: membership_rate(z, p, 0.3), (Z, Pi))


def test_membership_rate_refuses_other_shapes():
    """One row of Π for each row of Z."""
    with pytest.raises(ValueError, match="one row for each row of Z"):
        membership_rate(unit(4, 2), torch.ones(3, 2), 0.1)


def test_nmce_objective_matches_its_formula():
    """-½ ΔR - λ · mean cosine, Z the normalised mean of the views."""
    views, Pi = unit(2, 12, 4), torch.rand(12, 3, dtype=torch.float64).softmax(1)
    loss, R, R_c = nmce_objective(views, Pi, 0.2, 3.0)
    a, b = views.numpy()
    Z = (a + b) / 2
    Z /= np.linalg.norm(Z, axis=1, keepdims=True)
    rate = coding_rate_oracle(Z, 0.2)
    compressed = membership_rate_oracle(Z, Pi.numpy(), 0.2)
    cosine = np.mean([x @ y for x, y in zip(a, b, strict=True)])
    assert float(R) == pytest.approx(rate, rel=1e-12)
    assert float(R_c) == pytest.approx(compressed, rel=1e-12)
    assert float(loss) == pytest.approx(-0.5 * (rate - compressed) - 3 * cosine, rel=1e-12)


def test_gumbel_softmax_draws_from_the_logits():
    """Rows sum to one; the arg max has the softmax's frequencies; a low τ makes it one-hot."""
    generator = torch.Generator().manual_seed(0)
    logits = torch.tensor([0.0, 1.0, 2.0]).expand(20_000, 3)
    draw = gumbel_softmax(logits, 1.0, generator)
    assert torch.allclose(draw.sum(1), torch.ones(len(draw)), atol=1e-5)
    shares = torch.bincount(draw.argmax(1), minlength=3) / len(draw)
    # Four standard deviations of a share of 20,000 draws.
    assert torch.allclose(shares, logits[0].softmax(0), atol=4 * 0.5 / math.sqrt(20_000))
    assert gumbel_softmax(logits, 0.01, generator).amax(1).mean() > 0.98


def test_self_expression_is_a_symmetric_softmax_without_diagonal():
    """By the definition, entry by entry."""
    C = unit(6, 3)
    S = np.exp((C @ C.T).numpy() / 0.3)
    P = S / S.sum(1, keepdims=True)
    expected = (P + P.T) / 2
    np.fill_diagonal(expected, 0)
    assert np.allclose(self_expression(C, 0.3).numpy(), expected, atol=1e-14)
    assert self_expression(torch.stack([C, C]), 0.3).shape == (2, 6, 6)


def test_prodsc_objective_matches_its_formula():
    """-R + γ/2 ‖Z - AZ‖²/n + β/n times the sum of the k smallest eigenvalues of L."""
    Z, A = unit(9, 4), self_expression(unit(9, 4, seed=1), 0.3)
    loss, R = prodsc_objective(Z, A, 3, eps_sq=0.1, gamma=30.0, beta=50.0)
    z, a = Z.numpy(), A.numpy()
    residual = sum(np.sum((z[i] - a[i] @ z) ** 2) for i in range(9)) / 18
    eigenvalues = np.linalg.eigvalsh(np.diag(a.sum(1)) - a)[:3].sum() / 9
    rate = coding_rate_oracle(z, 0.1)
    assert float(R) == pytest.approx(rate, rel=1e-12)
    assert float(loss) == pytest.approx(-rate + 30 * residual + 50 * eigenvalues, rel=1e-10)


def test_prodsc_gradient_is_that_of_the_eigenvalues():
    """With W constant the gradient still equals finite differences of the eigenvalues."""
    A = self_expression(unit(7, 3), 0.4).requires_grad_()
    Z = unit(7, 3, seed=2)
    loss, _ = prodsc_objective(Z, A, 2, eps_sq=0.1, gamma=0.0, beta=1.0)
    (gradient,) = torch.autograd.grad(loss, A)
    direction = unit(7, 7, seed=3)
    direction = direction + direction.T

    def smallest(step):
        B = (A + step * direction).detach()
        return float(torch.linalg.eigvalsh(torch.diag(B.sum(1)) - B)[:2].sum()) / 7

    slope = (smallest(1e-6) - smallest(-1e-6)) / 2e-6
    assert float((gradient * direction).sum()) == pytest.approx(slope, rel=1e-6)


def test_block_diagonal_affinity_has_no_prodsc_penalty():
    """Two disconnected blocks give two eigenvalues of zero."""
    A = torch.block_diag(*[torch.ones(4, 4, dtype=torch.float64) - torch.eye(4)] * 2) / 3
    Z = torch.nn.functional.normalize(torch.eye(2, dtype=torch.float64).repeat_interleave(4, 0))
    loss, R = prodsc_objective(Z, A, 2, eps_sq=0.1, gamma=100.0, beta=100.0)
    assert float(loss) == pytest.approx(-float(R), abs=1e-9)


def test_cpp_terms_do_not_see_signs():
    """With |C Cᵀ|, negated codes change neither loss nor rates; the penalty is ½ κ ‖Γ‖²."""
    Z, C = unit(1, 12, 5).float(), unit(2, 12, 5, seed=1).float()
    signs = torch.ones(12, 1)
    signs[::2] = -1
    config = Stage2Config(tol=1e-6)
    generator = torch.Generator()
    plain = CPP(penalty=0.0).objective(Z, C, config, generator)
    turned = CPP(penalty=0.0).objective(Z, C * signs, config, generator)
    assert torch.allclose(plain.loss, turned.loss, atol=1e-5)
    assert float(plain.loss) == pytest.approx(float(plain.R_c - plain.R), abs=1e-5)
    from unbend.functional import doubly_stochastic

    Gamma = doubly_stochastic((C @ C.mT).abs(), config.eta, tol=1e-6).Gamma.mean(0)
    extra = CPP(penalty=0.5).objective(Z, C, config, generator).loss - plain.loss
    assert float(extra) == pytest.approx(0.25 * float(Gamma.square().sum()), rel=1e-4)


def test_coding_length_is_shortest_at_the_true_clusters():
    """CPP's rule for k: the formula on one cluster, and its minimum over three orthogonal lines."""
    Z = unit(10, 4)
    alone = (10 + 4) * 0.5 * coding_rate_oracle(Z.numpy(), 0.1)
    one = torch.zeros(10, dtype=torch.int64)
    assert coding_length(Z, one, 1, 0.1) == pytest.approx(alone, rel=1e-12)
    lines = torch.eye(3, dtype=torch.float64).repeat_interleave(40, 0)
    truth = torch.arange(3).repeat_interleave(40)
    lengths = {
        "true": coding_length(lines, truth, 3, 0.1),
        "merged": coding_length(lines, truth.clamp(max=1), 2, 0.1),
        "split": coding_length(lines, 2 * truth + torch.arange(120) % 2, 6, 0.1),
    }
    assert min(lengths, key=lengths.get) == "true"
