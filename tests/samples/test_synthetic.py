import numpy as np
import pytest
from tests.oracles.training import global_random_state_kept

from unbend.samples import make_sphere_manifolds


@pytest.mark.parametrize(("n", "A", "omega"), [(100, 0.2, 5.0), (37, 0.7, 3.0), (1, 0.2, 5.0)])
def test_without_noise_the_samples_lie_on_the_closed_form(n, A, omega):
    X, y = make_sphere_manifolds(n, amplitude=A, frequency=omega, noise=0)
    for i in range(n):
        phi = 2 * np.pi * (i + 1) / n
        theta = A * np.sin(omega * phi)
        expected = [np.cos(theta) * np.cos(phi), np.cos(theta) * np.sin(phi), np.sin(theta)]
        np.testing.assert_allclose(X[i], expected, atol=1e-15)
    np.testing.assert_array_equal(X[n:], np.tile([0, 0, 1], (n, 1)))
    np.testing.assert_allclose(np.linalg.norm(X, axis=1), 1)
    assert y.tolist() == [0] * n + [1] * n


@pytest.mark.parametrize("noise", [0.05, 0.05**0.5])
def test_noise_is_a_standard_deviation_on_both_manifolds(noise):
    n = 20_000
    clean, _ = make_sphere_manifolds(n, noise=0)
    gap = make_sphere_manifolds(n, noise=noise, random_state=0)[0] - clean
    for part in (gap[:n], gap[n:]):
        np.testing.assert_allclose(part.std(0), noise, rtol=0.02)  # four deviations of an estimate
        np.testing.assert_allclose(np.corrcoef(part.T), np.eye(3), atol=0.03)


def test_seed_determines_the_result():
    with global_random_state_kept():
        first, again, other = (make_sphere_manifolds(random_state=s)[0] for s in (3, 3, 4))
        drawn = make_sphere_manifolds(random_state=np.random.default_rng(3))[0]
    assert first.shape == (200, 3)
    np.testing.assert_array_equal(first, again)
    np.testing.assert_array_equal(first, drawn)
    assert not np.array_equal(first, other)
