"""The coding rates, one determinant at a time in NumPy's float64."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

__all__ = ["coding_rate_oracle", "compressed_rate_oracle", "logdets_oracle"]


def coding_rate_oracle(Z: ArrayLike, eps_sq: float) -> float:
    """logdet(I + d/(n ε²) ZᵀZ) for one matrix."""
    Z = np.asarray(Z, dtype=np.float64)
    n, d = Z.shape
    return _logdet(np.eye(d) + d / (n * eps_sq) * Z.T @ Z)


def logdets_oracle(Z: ArrayLike, Gamma: ArrayLike, eps_sq: float) -> list[float]:
    """logdet(I + d/ε² Zᵀ Diag(Γ_j) Z) of every column j."""
    Z, Gamma = np.asarray(Z, dtype=np.float64), np.asarray(Gamma, dtype=np.float64)
    d = Z.shape[1]
    values = []
    for column in Gamma.T:
        M = np.eye(d)
        for weight, z in zip(column, Z, strict=True):
            M += d / eps_sq * weight * np.outer(z, z)
        values.append(_logdet(M))
    return values


def compressed_rate_oracle(Z: ArrayLike, Gamma: ArrayLike, eps_sq: float) -> float:
    """Mean of the log-determinants over the columns."""
    return float(np.mean(logdets_oracle(Z, Gamma, eps_sq)))


def _logdet(M: np.ndarray) -> float:
    sign, value = np.linalg.slogdet(M)
    if sign <= 0:
        raise ArithmeticError("the oracle met a matrix that is not positive definite")
    return float(value)
