"""Landmarks: placement, masses, and a spectrum that approaches the exact one."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.generators.subspaces import union_of_subspaces

from unbend.functional import doubly_stochastic
from unbend.labels.landmarks import Landmarks, choose_landmarks, landmark_spectrum

ETA = 0.175


def test_every_sample_its_own_landmark_is_exact() -> None:
    """Then P is Γ itself and its singular values are the eigenvalues of Γ."""
    C = torch.from_numpy(union_of_subspaces(300, 5, d=24, dim=3).C).double()
    C = torch.nn.functional.normalize(C, dim=1)
    landmarks = Landmarks(C, torch.full((300,), 1 / 300, dtype=C.dtype))
    u = landmarks.potential(ETA, absolute=False, tol=1e-10)
    pairs = landmark_spectrum(C, landmarks, u, 5, eta=ETA, absolute=False, seed=0)
    exact = doubly_stochastic(C @ C.T, ETA, tol=1e-10)
    values, vectors = torch.linalg.eigh(exact.Gamma)
    torch.testing.assert_close(pairs.values, values.flip(0)[:6], rtol=0, atol=1e-3)
    overlap = torch.linalg.svdvals(vectors[:, -5:].T @ torch.linalg.qr(pairs.vectors[:, :5])[0])
    assert overlap.min() > 1 - 1e-5


def test_spectrum_approaches_the_exact_one() -> None:
    data = union_of_subspaces(4000, 8, imbalance=5.0, seed=0)
    C = torch.from_numpy(data.C)
    exact = torch.linalg.eigvalsh(doubly_stochastic(C @ C.T, ETA).Gamma).flip(0)[:9].numpy()
    landmarks = choose_landmarks(C, 512, seed=0)
    u = landmarks.potential(ETA, absolute=False, tol=1e-5)
    ours = landmark_spectrum(C, landmarks, u, 8, eta=ETA, absolute=False, seed=0).values.numpy()
    assert ours[0] == pytest.approx(1.0, abs=1e-4)
    # Landmarks are means of a few samples: their similarities lack some of the noise.
    np.testing.assert_allclose(ours[1:8], exact[1:8], atol=0.03)
    assert ours[7] - ours[8] > 0.4


@pytest.mark.parametrize("absolute", [False, True])
def test_small_clusters_get_landmarks(absolute: bool) -> None:
    data = union_of_subspaces(20_000, 10, imbalance=100.0, signed=absolute, seed=0)
    C = torch.from_numpy(data.C)
    landmarks = choose_landmarks(C, 200, seed=0, absolute=absolute)
    assert float(landmarks.mass.sum()) == pytest.approx(1.0, abs=1e-5)
    S = landmarks.codes @ C.T
    owner = data.y[(S.abs() if absolute else S).argmax(1)]
    mass = np.bincount(owner, weights=landmarks.mass, minlength=10)
    share = np.bincount(data.y) / data.y.size
    assert np.bincount(owner, minlength=10).min() >= 2
    np.testing.assert_allclose(mass, share, atol=0.02)


def test_signs_do_not_matter_with_absolute_similarity() -> None:
    C = torch.from_numpy(union_of_subspaces(1500, 4, seed=0).C)
    flip = torch.where(torch.arange(1500) % 3 == 0, -1.0, 1.0)[:, None]
    first = choose_landmarks(C, 64, seed=0, absolute=True).codes
    second = choose_landmarks(C * flip, 64, seed=0, absolute=True).codes
    torch.testing.assert_close((first * second).sum(1).abs(), torch.ones(64), atol=1e-4, rtol=0)


def test_copies_give_no_more_landmarks_than_values() -> None:
    values = torch.eye(6)
    landmarks = choose_landmarks(values.repeat(50, 1), 40, seed=0)
    assert landmarks.codes.shape == (6, 6)
    torch.testing.assert_close(landmarks.mass, torch.full((6,), 1 / 6))
