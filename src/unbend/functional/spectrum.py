"""Numerical rank: the number of directions that features use."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["numerical_rank"]


def numerical_rank(Z: Tensor, energy: float = 0.95) -> int:
    """The paper's numerical rank (§4): the least r whose r largest σ² exceed 95 % of their sum.

    Parameters
    ----------
    Z : Tensor of shape (n, d)
    energy : float, default=0.95

    Examples
    --------
    >>> numerical_rank(torch.diag(torch.tensor([3.0, 3.0, 0.1])))
    2
    """
    if Z.ndim != 2:
        raise ValueError(f"`Z` of numerical_rank must be (n, d), got shape {tuple(Z.shape)}")
    if not 0 < energy < 1:
        raise ValueError(f"`energy` of numerical_rank must lie in (0, 1), got {energy}; try 0.95")
    Z = Z.double()
    gram = Z.T @ Z if Z.shape[0] > Z.shape[1] else Z @ Z.T
    power = torch.linalg.eigvalsh(gram).flip(0).clamp(min=0)
    share = power.cumsum(0) / power.sum()
    if not torch.isfinite(share).all():
        return 0
    return int((share <= energy).sum()) + 1
