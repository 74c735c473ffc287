import pytest
import torch
from tests.oracles.training import tcr_oracle
from torch.nn.functional import normalize

from unbend.pretrain import tcr_objective


def views(n_views: int, n: int, d: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    Z = torch.randn(n_views, n, d, dtype=torch.float64, generator=generator)
    return normalize(Z, dim=2)


@pytest.mark.parametrize("n_views", [2, 3, 4])
@pytest.mark.parametrize(("n", "d"), [(9, 4), (4, 9), (1, 3)])
@pytest.mark.parametrize(("eps_sq", "invariance"), [(0.2, 60.0), (0.5, 0.0), (0.1, 3.0)])
def test_equals_the_float64_loop(n_views, n, d, eps_sq, invariance):
    Z = views(n_views, n, d)
    found = [float(v) for v in tcr_objective(Z, eps_sq, invariance)]
    assert found == pytest.approx(tcr_oracle(Z, eps_sq, invariance), rel=1e-12)


def test_two_views_are_the_papers_equation():
    """Eq. (5) with its sum over samples: the weight on the mean is lambda times n."""
    Z, weight, n = views(2, 7, 5), 0.3, 7
    mean = (Z[0] + Z[1]) / 2
    R = torch.logdet(torch.eye(5, dtype=torch.float64) + 5 / (n * 0.2) * mean.T @ mean)
    expected = R + weight * torch.einsum("nd,nd->n", Z[0], Z[1]).abs().sum()
    torch.testing.assert_close(tcr_objective(Z, 0.2, weight * n).value, expected)


@pytest.mark.parametrize("n_views", [2, 3])
@pytest.mark.parametrize(("n", "d"), [(6, 3), (3, 6)])
def test_gradient_is_exact(n_views, n, d):
    Z = views(n_views, n, d).requires_grad_()
    assert torch.autograd.gradcheck(lambda z: tcr_objective(z, 0.2, 5.0).value, (Z,))


def test_opposite_views_count_as_agreeing():
    Z = views(1, 8, 4)[0]
    assert float(tcr_objective(torch.stack([Z, -Z])).cosine) == pytest.approx(1)
    assert float(tcr_objective(torch.stack([Z, -Z])).R) == pytest.approx(0)


def test_order_of_views_and_samples_does_not_matter():
    Z = views(3, 8, 4)
    changed = Z[[2, 0, 1]][:, torch.randperm(8, generator=torch.Generator().manual_seed(0))]
    torch.testing.assert_close(tcr_objective(changed).value, tcr_objective(Z).value)


@pytest.mark.parametrize("shape", [(1, 5, 3), (5, 3), (3,), (), (2, 2, 5, 3)])
def test_invalid_shapes_raise(shape):
    with pytest.raises(ValueError, match=r"`Z_views` of tcr_objective must be \(A, n, d\)"):
        tcr_objective(torch.ones(shape))
