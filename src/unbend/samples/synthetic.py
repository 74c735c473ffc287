"""Synthetic data with known clusters."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["make_sphere_manifolds"]


def make_sphere_manifolds(
    n_per_manifold: int = 100,
    *,
    amplitude: float = 0.2,
    frequency: float = 5.0,
    noise: float = 0.05,
    random_state: int | np.random.Generator | None = None,
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """The paper's simulation (Fig. 1, Appendix B.1): a wavy closed curve and a point on S².

    The first manifold is x(φ) = (cos(A sin ωφ) cos φ, cos(A sin ωφ) sin φ, sin(A sin ωφ)) at
    φ_i = 2πi/n, the second the north pole; Gaussian noise is added to both.

    Parameters
    ----------
    n_per_manifold : int, default=100
        Samples on each manifold. The paper's caption and formula say 100, its text 200 once.
    amplitude, frequency : float
        A and ω.
    noise : float, default=0.05
        *Standard deviation* of the noise. The paper writes N(0, 0.05 I), which read literally
        is a variance, i.e. a deviation of 0.22. Neighbours on the curve are 0.06 apart and its
        waves are 0.2 high, so 0.22 would bury them, while the paper's figure shows them
        clearly; 0.05 as a deviation looks like that figure. For the literal reading pass
        ``noise=0.05**0.5``.
    random_state : int, Generator or None
        Seed.

    Returns
    -------
    X : ndarray of shape (2 * n_per_manifold, 3)
    y : ndarray of shape (2 * n_per_manifold,)
        0 on the curve, 1 at the point.

    Examples
    --------
    >>> X, y = make_sphere_manifolds(random_state=0)
    >>> X.shape, y.sum()
    ((200, 3), np.int64(100))
    """
    rng = np.random.default_rng(random_state)
    phi = 2 * np.pi * np.arange(1, n_per_manifold + 1) / n_per_manifold
    latitude = amplitude * np.sin(frequency * phi)
    curve = np.stack(
        [np.cos(latitude) * np.cos(phi), np.cos(latitude) * np.sin(phi), np.sin(latitude)], axis=1
    )
    point = np.tile([0.0, 0.0, 1.0], (n_per_manifold, 1))
    X = np.concatenate([curve, point])
    X += noise * rng.standard_normal(X.shape)
    return X, np.repeat(np.arange(2, dtype=np.int64), n_per_manifold)
