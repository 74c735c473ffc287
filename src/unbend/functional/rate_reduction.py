"""The rate reduction ΔR = R − R_c that MLC maximises."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from unbend.functional.coding_rate import apply_coding_rate
from unbend.functional.compressed_rate import (
    apply_compressed_rate,
    check_rate_arguments,
    draw_columns,
)

__all__ = ["RateReduction", "rate_reduction"]


class RateReduction(NamedTuple):
    """ΔR and its two terms, scalars that can be differentiated separately."""

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
    r"""Rate reduction, the paper's objective (MLC maximises it).

    .. math:: \Delta R(Z, \Gamma; \epsilon) = R(Z; \epsilon) - R_c(Z, \Gamma; \epsilon)

    The arguments are those of :func:`compressed_rate`. For doubly stochastic Γ it is never
    negative, because log det is concave. Both terms share the checked, widened and, if n < d,
    rotated features. R adds one log-determinant to the n of R_c.

    Returns
    -------
    RateReduction
        The tuple ``(delta, R, R_c)``.

    Examples
    --------
    >>> result = rate_reduction(torch.eye(2), torch.eye(2), eps_sq=1.0)
    >>> round(float(result.R), 4), round(float(result.R_c), 4)  # 2 log(1 + 1), log(1 + 2)
    (1.3863, 1.0986)
    """
    Z, Gamma, alpha = check_rate_arguments(Z, Gamma, eps_sq, "rate_reduction")
    Gamma = draw_columns(Gamma, n_anchors, generator, "rate_reduction")
    R = apply_coding_rate(Z, alpha / Z.shape[0])
    R_c = apply_compressed_rate(Z, Gamma, alpha)
    return RateReduction(R - R_c, R, R_c)
