"""Calibrated eta against closed forms."""

import math

import pytest
import torch
from tests.generators.subspaces import union_of_subspaces

from unbend.labels import calibrate_eta
from unbend.labels.calibration import n_eigenvalues_above
from unbend.labels.spectral import Membership


def codes(k: int = 6, n: int = 400, seed: int = 0) -> torch.Tensor:
    return torch.from_numpy(union_of_subspaces(n, k, d=32, seed=seed).C)


@pytest.mark.parametrize("k", [2, 5, 20])
@pytest.mark.parametrize("wanted", [0.6, 0.75, 0.9])
def test_orthogonal_groups(k, wanted):
    """k equal orthogonal groups: rows of Gamma share 1 : leak among the groups.

    Then lambda_2 = ... = lambda_k = (1 - leak) / (1 + (k - 1) leak) with leak = exp(-1/eta), which
    gives eta = 1 / ln((1 + (k - 1) wanted) / (1 - wanted)).
    """
    C = torch.eye(k).repeat(400 // k, 1)
    expected = 1 / math.log((1 + (k - 1) * wanted) / (1 - wanted))
    assert calibrate_eta(C, k, wanted) == pytest.approx(expected, rel=0.02)


@pytest.mark.parametrize("wanted", [0.5, 0.75, 0.9])
def test_gamma_has_the_wanted_eigenvalue(wanted):
    C = codes()
    eta = calibrate_eta(C, 6, wanted)
    Gamma = Membership.of_few(C, eta, False, 1e-6).dense()
    assert float(torch.linalg.eigvalsh(Gamma)[-6]) == pytest.approx(wanted, abs=0.02)


def test_eta_falls_with_sharpness():
    C = codes()
    etas = [calibrate_eta(C, 6, wanted) for wanted in (0.3, 0.5, 0.7, 0.9)]
    assert etas == sorted(etas, reverse=True)
    assert len(set(etas)) == 4


def test_eta_falls_with_the_number_of_clusters():
    C = torch.nn.functional.normalize(
        torch.randn(300, 16, generator=torch.Generator().manual_seed(0)), dim=1
    )
    etas = [calibrate_eta(C, k, 0.5) for k in (2, 4, 8, 16)]
    assert etas == sorted(etas, reverse=True)


def test_calibration_returns_a_bound_if_no_value_fits():
    """Equal codes have one eigenvalue at any eta; orthogonal ones keep theirs at a wide eta."""
    same = torch.zeros(50, 4)
    same[:, 0] = 1
    assert calibrate_eta(same, 2, 0.9) == pytest.approx(0.02, rel=0.05)
    assert calibrate_eta(torch.eye(2).repeat(25, 1), 2, 0.1) == pytest.approx(1.0, rel=0.05)


def test_a_pilot_is_drawn_from_many_codes_and_turning_them_changes_nothing():
    C = codes(n=3000)
    turn = torch.linalg.qr(torch.randn(32, 32, generator=torch.Generator().manual_seed(1)))[0]
    eta = calibrate_eta(C, 6, 0.75)
    assert eta == calibrate_eta(C, 6, 0.75)
    assert eta == pytest.approx(calibrate_eta(C @ turn, 6, 0.75), rel=0.02)
    assert eta == pytest.approx(calibrate_eta(C, 6, 0.75, seed=1), rel=0.1)


@pytest.mark.parametrize("n", [1, 2, 7, 60])
def test_eigenvalues_above_a_bound_are_counted(n):
    """Against all eigenvalues; random symmetric matrices need blocks of two in D."""
    generator = torch.Generator().manual_seed(n)
    for _ in range(20):
        A = torch.randn(n, n, generator=generator, dtype=torch.float64)
        A = A + A.T
        values = torch.linalg.eigvalsh(A)
        for bound in (-2.0, 0.0, 0.3, 5.0):
            assert n_eigenvalues_above(A, bound) == int((values > bound).sum())


def test_eigenvalues_of_a_membership_are_counted_in_single_precision():
    Gamma = Membership.of_few(codes().float(), 0.15, False, 1e-6).dense()
    values = torch.linalg.eigvalsh(Gamma.double())
    for bound in (0.05, 0.5, 0.75, 0.9):
        assert float((values - bound).abs().min()) > 1e-5  # none is too close to tell
        assert n_eigenvalues_above(Gamma, bound) == int((values > bound).sum())
