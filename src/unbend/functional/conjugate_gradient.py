"""Conjugate gradients for the linear systems (I + Γ) w = b of the projection."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["matvec", "solve_one_plus"]


def matvec(A: Tensor, x: Tensor) -> Tensor:
    """Product of matrices (..., n, n) with vectors (..., n)."""
    return (A @ x.unsqueeze(-1)).squeeze(-1)


def solve_one_plus(Gamma: Tensor, b: Tensor, tol: float, max_iter: int) -> tuple[Tensor, float]:
    """Solve (I + Γ) w = b by conjugate gradients, each element of a batch with its own steps.

    The spectrum lies in [0, 2], and in [1, 2] if Γ is positive semi-definite: then a decimal
    digit is gained at least every 1.3 steps. A singular system (eigenvalue -1 of Γ) gets the
    solution without a part in the kernel, provided that b has none.

    Parameters
    ----------
    Gamma : Tensor of shape (..., n, n)
        Symmetric.
    b : Tensor of shape (..., n)
        Right-hand sides.
    tol : float
        Stop when every residual is at most ``tol`` times its right-hand side.
    max_iter : int
        Largest number of products with Γ.

    Returns
    -------
    w : Tensor of shape (..., n)
    residual : float
        Largest residual relative to its right-hand side.
    """
    w, r, p = torch.zeros_like(b), b.clone(), b.clone()
    r_dot = (r * r).sum(-1, keepdim=True)
    target = r_dot * tol**2
    tiny = torch.finfo(b.dtype).tiny
    for _ in range(max_iter):
        if bool((r_dot <= target).all()):
            break
        Ap = p + matvec(Gamma, p)
        # A solved element has r = 0 = p; the clamps turn its 0/0 into 0.
        step = r_dot / (p * Ap).sum(-1, keepdim=True).clamp(min=tiny)
        step = torch.where(r_dot > target, step, 0)
        w = w + step * p
        r = r - step * Ap
        r_dot, previous = (r * r).sum(-1, keepdim=True), r_dot
        p = r + (r_dot / previous.clamp(min=tiny)) * p
    relative = (r_dot / target.clamp(min=tiny)).sqrt() * tol
    return w, float(relative.max())
