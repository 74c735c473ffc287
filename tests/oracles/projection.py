"""The entropic projection by the textbook's alternation of two potentials, in float64."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import ArrayLike
from scipy.special import logsumexp
from torch import Tensor

__all__ = ["projection_oracle", "unrolled_projection"]


def projection_oracle(S: ArrayLike, eta: float, n_iter: int = 5000) -> np.ndarray:
    """Scale rows, then columns, of exp(S/η) until both sum to one; knows nothing of symmetry."""
    log_K = np.asarray(S, dtype=np.float64) / eta
    f, g = np.zeros(len(log_K)), np.zeros(len(log_K))
    for _ in range(n_iter):
        f = -logsumexp(log_K + g[None, :], axis=1)
        g = -logsumexp(log_K + f[:, None], axis=0)
        Gamma = np.exp(log_K + f[:, None] + g[None, :])
        if np.abs(Gamma.sum(1) - 1).max() < 1e-13:
            return Gamma
    raise ArithmeticError("the oracle did not converge")


def unrolled_projection(S: Tensor, eta: float, n_iter: int) -> Tensor:
    """Alternate the two potentials ``n_iter`` times and leave the gradient to autograd."""
    log_K = S / eta
    g = torch.zeros_like(S[0])
    f = torch.zeros_like(S[0])
    for _ in range(n_iter):
        f = -torch.logsumexp(log_K + g[None, :], dim=1)
        g = -torch.logsumexp(log_K + f[:, None], dim=0)
    return torch.exp(log_K + f[:, None] + g[None, :])
