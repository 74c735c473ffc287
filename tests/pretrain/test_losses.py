"""Every loss against a float64 loop, its gradients, and what it must not depend on."""

import math

import numpy as np
import pytest
import torch
from tests.oracles.selfsupervised import (
    byol_oracle,
    codes_oracle,
    info_nce_oracle,
    nt_xent_oracle,
    swav_oracle,
    vicreg_oracle,
)
from torch.nn.functional import normalize

from unbend.pretrain.methods.byol import byol_loss
from unbend.pretrain.methods.moco import info_nce
from unbend.pretrain.methods.simclr import nt_xent
from unbend.pretrain.methods.swav import sinkhorn_codes, swapped_prediction
from unbend.pretrain.methods.vicreg import vicreg_terms


def draw(*shape: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, dtype=torch.float64, generator=generator)


SIZES = [(7, 4), (3, 9), (2, 1)]


@pytest.mark.parametrize(("n", "d"), [*SIZES, (1, 3)])
@pytest.mark.parametrize("temperature", [0.1, 0.5, 2.0])
def test_nt_xent_equals_the_loop(n, d, temperature):
    Z, other = draw(n, d), draw(n, d, seed=1)
    found = float(nt_xent(Z, other, temperature))
    assert found == pytest.approx(nt_xent_oracle(Z, other, temperature), rel=1e-12, abs=1e-12)


def test_nt_xent_of_known_features():
    """Two samples at right angles, views alike: log(1 + 2 e^(-1/t)) each."""
    Z = torch.eye(2, dtype=torch.float64)
    assert float(nt_xent(Z, 3 * Z, 0.5)) == pytest.approx(math.log(1 + 2 * math.exp(-2)))


@pytest.mark.parametrize(("n", "d"), SIZES)
@pytest.mark.parametrize("temperature", [0.07, 0.2])
def test_info_nce_equals_the_loop(n, d, temperature):
    query, key, queue = draw(n, d), draw(n, d, seed=1), normalize(draw(11, d, seed=2), dim=1)
    found = float(info_nce(query, key, queue, temperature))
    assert found == pytest.approx(info_nce_oracle(query, key, queue, temperature), rel=1e-12)


@pytest.mark.parametrize(("n", "d"), [(7, 4), (3, 9), (2, 2)])
@pytest.mark.parametrize("scale", [0.3, 3.0])
def test_vicreg_equals_the_loop(n, d, scale):
    Z, other = scale * draw(n, d), scale * draw(n, d, seed=1) + 5
    found = [float(term) for term in vicreg_terms(Z, other)]
    assert found == pytest.approx(vicreg_oracle(Z, other), rel=1e-9, abs=1e-12)


@pytest.mark.parametrize(("n", "d"), SIZES)
def test_byol_equals_the_loop(n, d):
    prediction, target = draw(n, d), 4 * draw(n, d, seed=1)
    assert float(byol_loss(prediction, target)) == pytest.approx(byol_oracle(prediction, target))


@pytest.mark.parametrize(("n", "k"), [(8, 3), (3, 8), (5, 5)])
@pytest.mark.parametrize(("eps", "n_iter"), [(0.05, 3), (0.5, 1), (0.2, 50)])
def test_codes_equal_the_loop(n, k, eps, n_iter):
    scores = torch.tanh(draw(n, k))
    expected = codes_oracle(scores, eps, n_iter)
    np.testing.assert_allclose(sinkhorn_codes(scores, eps, n_iter), expected, rtol=1e-8, atol=1e-12)


def test_codes_use_all_prototypes_alike():
    """With enough rounds the marginals are exact: one per sample, n/k per prototype."""
    codes = sinkhorn_codes(torch.tanh(draw(12, 4)), 0.3, 200)
    torch.testing.assert_close(codes.sum(1), torch.ones(12, dtype=torch.float64))
    torch.testing.assert_close(codes.sum(0), torch.full((4,), 3.0, dtype=torch.float64))


def test_codes_survive_scores_that_leave_the_range_of_floats():
    codes = sinkhorn_codes(100 * draw(6, 4).float(), 0.05)
    assert torch.isfinite(codes).all()
    torch.testing.assert_close(codes.sum(1), torch.ones(6))


@pytest.mark.parametrize(("n_views", "n_full"), [(2, 2), (5, 2), (3, 1)])
def test_swapped_prediction_equals_the_loop(n_views, n_full):
    scores = [torch.tanh(draw(6, 4, seed=v)) for v in range(n_views)]
    found = float(swapped_prediction(scores, n_full, 0.1, 0.05, 3))
    expected = swav_oracle([s.numpy() for s in scores], n_full, 0.1, 0.05, 3)
    assert found == pytest.approx(expected, rel=1e-9)


def _vicreg(Z, other):
    terms = vicreg_terms(Z, other)
    return 25 * terms.invariance + 25 * terms.variance + terms.covariance


@pytest.mark.parametrize(
    "loss", [nt_xent, _vicreg, lambda a, b: info_nce(a, draw(5, 3), normalize(b, dim=1).detach())]
)
def test_gradients_are_exact(loss):
    Z, other = draw(5, 3).requires_grad_(), draw(5, 3, seed=1).requires_grad_()
    assert torch.autograd.gradcheck(lambda a: loss(a, other.detach()), (Z,))
    if loss in (nt_xent, _vicreg):
        assert torch.autograd.gradcheck(lambda b: loss(Z.detach(), b), (other,))


def test_no_gradient_reaches_keys_queue_targets_or_codes():
    a, b, queue = (draw(4, 3, seed=s).requires_grad_() for s in range(3))
    info_nce(a, b, queue).backward()
    assert a.grad is not None
    assert b.grad is None
    assert queue.grad is None
    byol_loss(a, b).backward()
    assert b.grad is None
    first, second = (torch.tanh(draw(4, 3, seed=s)).requires_grad_() for s in range(2))
    swapped_prediction([first, second], 1).backward()  # the first gives codes only
    assert first.grad is None
    assert second.grad is not None


@pytest.mark.parametrize("loss", [nt_xent, byol_loss, _vicreg])
def test_order_of_samples_does_not_matter(loss):
    Z, other = draw(9, 4), draw(9, 4, seed=1)
    order = torch.randperm(9, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(loss(Z[order], other[order]), loss(Z, other))


@pytest.mark.parametrize("loss", [nt_xent, byol_loss, _vicreg])
def test_half_precision_is_computed_in_full(loss):
    Z, other = draw(16, 8).bfloat16(), draw(16, 8, seed=1).bfloat16()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = loss(Z, other)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found.double(), loss(Z.double(), other.double()), rtol=1e-4, atol=0)


def test_invalid_input_raises():
    Z = draw(4, 3)
    with pytest.raises(ValueError, match="`temperature` of nt_xent must be > 0, got 0"):
        nt_xent(Z, Z, 0)
    with pytest.raises(ValueError, match="both views of byol_loss must have the same shape"):
        byol_loss(Z, Z[:2])
    with pytest.raises(ValueError, match="`Z` of vicreg_terms must have 2 rows or more, got 1"):
        vicreg_terms(Z[:1], Z[:1])
    with pytest.raises(ValueError, match="must hold 2 views or more, got 1"):
        swapped_prediction([Z], 1)
    with pytest.raises(ValueError, match="`queue` of info_nce must have shape"):
        info_nce(Z, Z, Z[0])
