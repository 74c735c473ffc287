"""The rate reduction ΔR = R − R_c that MLC maximises."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from unbend.functional.coding_rate import coding_rate
from unbend.functional.compressed_rate import compressed_rate

__all__ = ["RateReduction", "rate_reduction"]


class RateReduction(NamedTuple):
    """ΔR and its two terms."""

    delta: Tensor
    R: Tensor
    R_c: Tensor


def rate_reduction(
    Z: Tensor,
    Gamma: Tensor,
    eps_sq: float,
    n_anchors: int | None = None,
    generator: torch.Generator | None = None,
) -> RateReduction:
    """Rate reduction ΔR(Z, Γ; ε) = R(Z; ε) − R_c(Z, Γ; ε)."""
    R = coding_rate(Z, eps_sq)
    R_c = compressed_rate(Z, Gamma, eps_sq, n_anchors, generator)
    return RateReduction(R - R_c, R, R_c)
