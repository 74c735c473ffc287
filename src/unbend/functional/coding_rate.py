"""The coding rate R of the paper: the volume that all features span together."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from unbend.functional.checks import (
    check_positive,
    check_tensor,
    first_order_only,
    full_precision,
    working_dtype,
)

__all__ = ["coding_rate"]


def coding_rate(Z: Tensor, eps_sq: float) -> Tensor:
    r"""Coding rate of the features, the first term of the paper's objective.

    .. math:: R(Z; \epsilon) = \log\det\Bigl(I + \frac{d}{n \epsilon^2} Z^\top Z\Bigr)

    The paper's samples are columns of Z; here they are rows, hence the transpose.

    Parameters
    ----------
    Z : Tensor of shape (..., n, d)
        Features; leading axes are a batch. Half precision is computed in float32.
    eps_sq : float
        Distortion ε² > 0; the paper uses 0.2 in stage 1 and 0.1 in stage 2.

    Returns
    -------
    Tensor of shape (...)
        One rate for each element of the batch, in float32 or float64.

    Notes
    -----
    The smaller of the two Gram matrices ZᵀZ and ZZᵀ is factorised: both give the same
    determinant. With s = d/(nε²) the gradient is 2s Z (I + s ZᵀZ)⁻¹ in closed form, from the
    same factor. There is no second derivative.

    Examples
    --------
    >>> round(float(coding_rate(torch.eye(2), eps_sq=1.0)), 4)  # 2 log(1 + 1)
    1.3863
    """
    check_tensor(Z, "Z", "coding_rate", "n, d", batched=True)
    eps_sq = check_positive(eps_sq, "eps_sq", "coding_rate", 0.1)
    n, d = Z.shape[-2:]
    return apply_coding_rate(Z.to(working_dtype(Z)), d / (n * eps_sq))


def apply_coding_rate(Z: Tensor, scale: float) -> Tensor:
    """R of checked features, differentiable; ``scale`` is d/(nε²)."""
    value: Tensor = _CodingRate.apply(Z, scale)  # type: ignore[no-untyped-call]
    return value


class _CodingRate(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, Z: Tensor, scale: float) -> Tensor:
        with full_precision(Z):
            L = _factor(Z, scale)
        ctx.save_for_backward(Z, L)
        ctx.scale = scale
        value: Tensor = 2 * L.diagonal(dim1=-2, dim2=-1).log().sum(-1)
        return value.to(Z.dtype)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        Z, L = ctx.saved_tensors
        with torch.no_grad(), full_precision(Z):
            wide = Z.to(L.dtype)
            if L.shape[-1] == Z.shape[-1]:
                gradient = torch.cholesky_solve(wide.mT, L).mT
            else:
                gradient = torch.cholesky_solve(wide, L)
            gradient = (2 * ctx.scale) * gradient.to(Z.dtype)
        return first_order_only("coding_rate", grad[..., None, None] * gradient, Z), None


def _factor(Z: Tensor, scale: float) -> Tensor:
    """Cholesky factor of I + scale · (smaller Gram matrix), in float64 if float32 fails."""
    gram = Z.mT @ Z if Z.shape[-1] <= Z.shape[-2] else Z @ Z.mT
    gram.mul_(scale).diagonal(dim1=-2, dim2=-1).add_(1)
    L: Tensor
    L, info = torch.linalg.cholesky_ex(gram)
    if not bool((info > 0).any()) and bool(L.isfinite().all()):
        return L
    if Z.dtype == torch.float32:
        return _factor(Z.double(), scale)
    raise ValueError(
        "`Z` of coding_rate must be finite, got a matrix I + d/(n eps_sq) ZᵀZ that is not "
        "positive definite; check Z for NaN and infinite entries"
    )
