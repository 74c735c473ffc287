"""The entropic projection in float64: by a library's trust-region method, and unrolled."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import ArrayLike
from scipy.optimize import minimize
from torch import Tensor

__all__ = ["projection_oracle", "unrolled_projection"]


def projection_oracle(S: ArrayLike, eta: float) -> np.ndarray:
    """Minimise the convex dual ½ Σ exp(S/η + x_i + x_j) − Σ x_i, polish by Newton, return Γ.

    Its gradient is the marginal error Γ1 − 1 and its Hessian Diag(Γ1) + Γ. (Alternating row and
    column scalings are no oracle: with well separated clusters they need 1e5 rounds.)
    """
    log_K = np.asarray(S, dtype=np.float64) / eta

    def gamma(x: np.ndarray) -> np.ndarray:
        return np.exp(np.minimum(log_K + x[:, None] + x[None, :], 500.0))

    def hessian(x: np.ndarray) -> np.ndarray:
        return np.diag(gamma(x).sum(1)) + gamma(x)

    start = -log_K.max(1) / 2
    found = minimize(
        lambda x: gamma(x).sum() / 2 - x.sum(),
        start,
        jac=lambda x: gamma(x).sum(1) - 1,
        hess=hessian,
        method="trust-exact",
        options={"gtol": 1e-7, "maxiter": 1000},
    )
    x = found.x
    for _ in range(4):
        # Least squares, since Γ may have the eigenvalue -1.
        x = x - np.linalg.lstsq(hessian(x), gamma(x).sum(1) - 1, rcond=1e-14)[0]
    if np.abs(gamma(x).sum(1) - 1).max() > 1e-11:
        raise ArithmeticError("the oracle did not converge")
    return gamma(x)


def unrolled_projection(S: Tensor, eta: float, n_iter: int) -> Tensor:
    """Update one potential ``n_iter`` times and leave the gradient to autograd."""
    u = torch.zeros_like(S[0])
    for _ in range(n_iter):
        u = (u - eta * torch.logsumexp((S + u[None, :]) / eta, dim=1)) / 2
    return torch.exp((S + u[:, None] + u[None, :]) / eta)
