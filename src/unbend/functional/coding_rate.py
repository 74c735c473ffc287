"""The coding rate R of the paper."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["coding_rate"]


def coding_rate(Z: Tensor, eps_sq: float) -> Tensor:
    """Coding rate R(Z; ε) = logdet(I + d / (n ε²) ZᵀZ), rows of Z (..., n, d) are samples."""
    n, d = Z.shape[-2:]
    gram = Z.mT @ Z if d <= n else Z @ Z.mT
    eye = torch.eye(gram.shape[-1], dtype=Z.dtype, device=Z.device)
    L = torch.linalg.cholesky(eye + (d / (n * eps_sq)) * gram)
    return 2 * L.diagonal(dim1=-2, dim2=-1).log().sum(-1)
