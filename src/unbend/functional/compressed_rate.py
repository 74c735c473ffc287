"""The compressed rate R_c of the paper."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["compressed_rate"]


def compressed_rate(
    Z: Tensor,
    Gamma: Tensor,
    eps_sq: float,
    n_anchors: int | None = None,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Compressed rate R_c(Z, Γ; ε): mean over columns j of logdet(I + d/ε² Zᵀ Diag(Γ_j) Z)."""
    n, d = Z.shape
    if n_anchors is not None and n_anchors < n:
        columns = torch.randperm(n, generator=generator)[:n_anchors]
        Gamma = Gamma[:, columns.to(Gamma.device)]
    weighted = torch.einsum("ij,ia,ib->jab", Gamma, Z, Z)
    eye = torch.eye(d, dtype=Z.dtype, device=Z.device)
    L = torch.linalg.cholesky(eye + (d / eps_sq) * weighted)
    return 2 * L.diagonal(dim1=-2, dim2=-1).log().sum(-1).mean()
