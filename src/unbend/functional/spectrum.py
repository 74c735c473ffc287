"""Eigenpairs of symmetric matrices, and the number of directions that features use."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor

from unbend.threads import use_threads

__all__ = ["eigh", "eigvalsh", "numerical_rank"]

# Matrices with this many rows use one thread on the CPU: two take twice the processor time and are
# no faster, and beside a busy program they take ten times as long. Smaller ones take no time.
_ON_ONE_THREAD = range(500, 3000)


def eigh(A: Tensor) -> tuple[Tensor, Tensor]:
    """Eigenvalues, rising, and eigenvectors of a symmetric matrix.

    >>> eigh(torch.diag(torch.tensor([2.0, 1.0])))[0]
    tensor([1., 2.])
    """
    with _threads(A):
        values, vectors = torch.linalg.eigh(A)
    return values, vectors


def eigvalsh(A: Tensor) -> Tensor:
    """Eigenvalues, rising, of a symmetric matrix."""
    with _threads(A):
        values: Tensor = torch.linalg.eigvalsh(A)
    return values


def _threads(A: Tensor) -> AbstractContextManager[None]:
    one = A.device.type == "cpu" and A.shape[-1] in _ON_ONE_THREAD
    return use_threads(1) if one else nullcontext()


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
    power = eigvalsh(gram).flip(0).clamp(min=0)
    share = power.cumsum(0) / power.sum()
    if not torch.isfinite(share).all():
        return 0
    return int((share <= energy).sum()) + 1
