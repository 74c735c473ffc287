"""Reference implementations, written directly from the equations and differentiated by autograd.

They are what a careful engineer would write first: batched, vectorised, no Python loop over
samples.
"""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["compressed_rate_batched", "compressed_rate_einsum", "unrolled_sinkhorn"]


def compressed_rate_batched(Z: Tensor, Gamma: Tensor, eps_sq: float) -> Tensor:
    """R_c by the batched formula: the n×d×n tensor Zᵀ Diag(Γ_j), times Z, and LU."""
    d = Z.shape[1]
    weighted = Z.mT.unsqueeze(0) * Gamma.mT.unsqueeze(1)  # (n, d, n)
    M = torch.eye(d, dtype=Z.dtype, device=Z.device) + (d / eps_sq) * (weighted @ Z)
    return torch.logdet(M).mean()


def compressed_rate_einsum(Z: Tensor, Gamma: Tensor, eps_sq: float) -> Tensor:
    """R_c by einsum: all z_i z_iᵀ first, then their sums weighted by Γ as one product, and LU.

    Left to itself, einsum contracts from left to right and builds the n×d×n tensor again.
    """
    d = Z.shape[1]
    outer = torch.einsum("ia,ib->iab", Z, Z)
    moments = torch.einsum("ij,iab->jab", Gamma, outer)
    M = torch.eye(d, dtype=Z.dtype, device=Z.device) + (d / eps_sq) * moments
    return torch.logdet(M).mean()


def unrolled_sinkhorn(S: Tensor, eta: float, n_iter: int) -> Tensor:
    """Project S by ``n_iter`` averaged log-domain updates, differentiated by unrolling them."""
    u = torch.zeros_like(S[..., 0])
    for _ in range(n_iter):
        u = (u - eta * torch.logsumexp((S + u.unsqueeze(-2)) / eta, dim=-1)) / 2
    return torch.exp((S + u.unsqueeze(-1) + u.unsqueeze(-2)) / eta)
