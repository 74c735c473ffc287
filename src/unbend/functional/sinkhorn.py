"""The doubly stochastic projection P_{Ω,η} of the paper."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from unbend.exceptions import NotConvergedWarning

__all__ = ["DoublyStochastic", "doubly_stochastic"]


@dataclass(frozen=True)
class DoublyStochastic:
    """A projection and how well it did."""

    Gamma: Tensor
    potential: Tensor
    n_iter: int
    marginal_error: float
    converged: bool


class _Implicit(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, S: Tensor, u: Tensor, eta: float) -> Tensor:
        Gamma = ((S + u.unsqueeze(-1) + u.unsqueeze(-2)) / eta).exp()
        ctx.save_for_backward(Gamma)
        ctx.eta = eta
        return Gamma

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, G: Tensor) -> tuple[Tensor, None, None]:
        (Gamma,) = ctx.saved_tensors
        H = G * Gamma
        eye = torch.eye(Gamma.shape[-1], dtype=Gamma.dtype, device=Gamma.device)
        w = torch.linalg.solve(eye + Gamma, H.sum(-1) + H.sum(-2))
        return Gamma * (G - w.unsqueeze(-1)) / ctx.eta, None, None


def doubly_stochastic(
    S: Tensor,
    eta: float,
    tol: float = 1e-5,
    max_iter: int = 100,
    potential: Tensor | None = None,
) -> DoublyStochastic:
    """Γ = exp((S + u1ᵀ + 1uᵀ)/η) with rows and columns that sum to one."""
    with torch.no_grad():
        u = torch.zeros_like(S[..., 0]) if potential is None else potential
        error, n_iter = float("inf"), 0
        for n_iter in range(1, max_iter + 1):
            log_sum = ((S + u.unsqueeze(-2)) / eta).logsumexp(-1)
            error = float(((u / eta + log_sum).exp() - 1).abs().max())
            if error <= tol:
                break
            u = (u - eta * log_sum) / 2
    if error > tol:
        message = f"doubly_stochastic: marginal error {error:.2e} after {n_iter} updates"
        warnings.warn(message, NotConvergedWarning, stacklevel=2)
    Gamma: Tensor = _Implicit.apply(S, u, eta)  # type: ignore[no-untyped-call]
    return DoublyStochastic(Gamma, u, n_iter, error, error <= tol)
