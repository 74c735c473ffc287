"""The compressed rate R_c of the paper: one log-determinant per column of Γ."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from unbend.functional.checks import (
    check_count,
    check_positive,
    check_tensor,
    first_order_only,
    full_precision,
    working_dtype,
)
from unbend.functional.factorization import logdet_and_invert_
from unbend.functional.packing import (
    add_identity_,
    add_quadratic_gradient_,
    layout,
    pack_outer,
)

__all__ = ["compressed_rate"]

# Working memory, in numbers. Large enough that the matrix products run at full speed (n = 1024
# columns at d = 128 fit in one chunk), small enough that it stays well below one copy of all M_j
# as d grows. A tile of rows is as large as the chunk of columns, or as large as a cache where there
# are few columns; a factorisation batch likewise.
CHUNK_NUMBERS = 10 * 2**20
TILE_NUMBERS = 4 * 2**20
BATCH_NUMBERS = 4 * 2**20
# Below this many columns or rows a matrix product loses its speed, whatever the memory.
MIN_COLUMNS = 64


def compressed_rate(
    Z: Tensor,
    Gamma: Tensor,
    eps_sq: float,
    n_anchors: int | None = None,
    generator: torch.Generator | None = None,
) -> Tensor:
    r"""Compressed rate, the second term of the paper's objective (its equation for MLC).

    .. math:: R_c(Z, \Gamma; \epsilon) = \frac{1}{n} \sum_j \log\det M_j, \qquad
              M_j = I + \frac{d}{\epsilon^2} Z^\top \mathrm{Diag}(\Gamma_j) Z

    The paper's samples are columns of Z; here they are rows, hence the transposes.

    Parameters
    ----------
    Z : Tensor of shape (n, d)
        Features. float32 or float64; half precision is computed in float32.
    Gamma : Tensor of shape (n, m)
        Membership Γ with non-negative entries. In the paper m = n and Γ is doubly stochastic;
        any number of columns is accepted and the mean is over them.
    eps_sq : float
        Distortion ε² > 0; the paper's stage 2 uses 0.1.
    n_anchors : int, optional
        Use this many columns, drawn without replacement, instead of all: an unbiased estimate at
        ``n_anchors / m`` of the cost. With ``n_anchors >= m`` all columns are used.
    generator : torch.Generator, optional
        Source of the draw; required when ``n_anchors`` leaves columns out.

    Returns
    -------
    Tensor
        A scalar, in float32 or float64.

    Notes
    -----
    The gradients are in closed form, with α = d/ε²,

    .. math:: \frac{\partial R_c}{\partial \Gamma_{ij}} = \frac{\alpha}{m} z_i^\top M_j^{-1} z_i,
              \qquad
              \frac{\partial R_c}{\partial z_i} =
              \frac{2\alpha}{m} \Bigl(\sum_j \Gamma_{ij} M_j^{-1}\Bigr) z_i,

    and only those needed are computed, together with the value. All M_j come from one matrix
    product of Γᵀ with the packed z_i z_iᵀ, and each gradient is one more. Columns are
    processed in chunks of bounded memory. With n < d, Z is rotated into its n-dimensional row
    space first, which changes nothing but the size of M_j. There is no second derivative.

    In float32 the relative error of the gradient is about 1e-7 times the condition number of
    M_j, at most 1 + d/ε² for unit-norm features and columns of Γ that sum to one; a
    factorisation that fails for that reason is repeated in float64.
    Autocast is switched off inside, but TF32 products, where the user allowed them on a GPU,
    are not, and would cost three digits.

    Examples
    --------
    >>> Z = torch.eye(3)
    >>> round(float(compressed_rate(Z, torch.eye(3), eps_sq=1.0)), 4)  # log(1 + 3)
    1.3863
    """
    Z, Gamma, alpha = check_rate_arguments(Z, Gamma, eps_sq, "compressed_rate")
    Gamma = draw_columns(Gamma, n_anchors, generator, "compressed_rate")
    return apply_compressed_rate(Z, Gamma, alpha)


def check_rate_arguments(
    Z: Tensor, Gamma: Tensor, eps_sq: float, owner: str
) -> tuple[Tensor, Tensor, float]:
    """Check the arguments; return Z rotated to its smaller side, Γ, and α = d/ε²."""
    check_tensor(Z, "Z", owner, "n, d")
    check_tensor(Gamma, "Gamma", owner, "n, m")
    eps_sq = check_positive(eps_sq, "eps_sq", owner, 0.1)
    n, d = Z.shape
    if Gamma.shape[0] != n:
        raise ValueError(
            f"`Gamma` of {owner} must have one row for each of the {n} rows of Z, "
            f"got shape {tuple(Gamma.shape)}; rows are samples"
        )
    dtype = working_dtype(Z, Gamma)
    Z, Gamma = Z.to(dtype), Gamma.to(dtype)
    if n < d:
        with full_precision(Z):
            # The rotation may be treated as a constant: all gradients lie in the row space of Z.
            basis = torch.linalg.qr(Z.detach().mT).Q
            Z = Z @ basis
    return Z, Gamma, d / eps_sq


def draw_columns(
    Gamma: Tensor, n_anchors: int | None, generator: torch.Generator | None, owner: str
) -> Tensor:
    """Return ``n_anchors`` distinct random columns of Γ, or all of them."""
    if n_anchors is None:
        return Gamma
    m = Gamma.shape[1]
    if check_count(n_anchors, "n_anchors", owner, 128) >= m:
        return Gamma
    if generator is None:
        raise ValueError(
            f"`generator` of {owner} is required with n_anchors={n_anchors}, got None; "
            "try torch.Generator().manual_seed(0)"
        )
    columns = torch.randperm(m, generator=generator, device=generator.device)[:n_anchors]
    return Gamma.index_select(1, columns.to(Gamma.device))


def apply_compressed_rate(Z: Tensor, Gamma: Tensor, alpha: float) -> Tensor:
    """R_c of prepared arguments, differentiable."""
    wanted = (
        torch.is_grad_enabled() and Z.requires_grad,
        torch.is_grad_enabled() and Gamma.requires_grad,
    )
    value: Tensor = _CompressedRate.apply(Z, Gamma, alpha, wanted)  # type: ignore[no-untyped-call]
    return value


class _CompressedRate(torch.autograd.Function):
    """Computes the gradients together with the value, so intermediate results are not stored."""

    @staticmethod
    def forward(
        ctx: Any, Z: Tensor, Gamma: Tensor, alpha: float, wanted: tuple[bool, bool]
    ) -> Tensor:
        with full_precision(Z):
            result = _evaluate_safely(Z, Gamma, alpha, wanted)
        ctx.save_for_backward(Z, Gamma, result.grad_Z, result.grad_Gamma)
        return result.value

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None, None, None]:
        Z, Gamma, grad_Z, grad_Gamma = ctx.saved_tensors
        scaled = [
            None if g is None else first_order_only("compressed_rate", grad * g, Z, Gamma)
            for g in (grad_Z, grad_Gamma)
        ]
        return scaled[0], scaled[1], None, None


class _Evaluation(NamedTuple):
    value: Tensor
    grad_Z: Tensor | None
    grad_Gamma: Tensor | None
    failed: Tensor

    def float(self) -> _Evaluation:
        """Narrow the numbers to float32."""
        grad_Z = None if self.grad_Z is None else self.grad_Z.float()
        grad_Gamma = None if self.grad_Gamma is None else self.grad_Gamma.float()
        return _Evaluation(self.value.float(), grad_Z, grad_Gamma, self.failed)


def _evaluate_safely(
    Z: Tensor, Gamma: Tensor, alpha: float, wanted: tuple[bool, bool]
) -> _Evaluation:
    """Evaluate; repeat in float64 if float32 cannot factorise; raise if that fails too."""
    result = _evaluate(Z, Gamma, alpha, wanted)
    if result.failed and Z.dtype == torch.float32:
        result = _evaluate(Z.double(), Gamma.double(), alpha, wanted).float()
    if result.failed:
        raise ValueError(
            "`Z` and `Gamma` of compressed_rate must be finite and Gamma must be >= 0, got a "
            "matrix I + d/eps_sq ZᵀDiag(Gamma_j)Z that is not positive definite; "
            "check them for NaN and negative entries"
        )
    return result


def _evaluate(Z: Tensor, Gamma: Tensor, alpha: float, wanted: tuple[bool, bool]) -> _Evaluation:
    """R_c and the wanted gradients, a chunk of columns and a tile of rows at a time."""
    (n, d), m = Z.shape, Gamma.shape[1]
    p = layout(d).size
    chunk = _even_parts(m, max(MIN_COLUMNS, CHUNK_NUMBERS // p))
    tile = _even_parts(n, max(MIN_COLUMNS, TILE_NUMBERS // p, chunk))
    batch = max(1, BATCH_NUMBERS // d**2)
    grad_Z = torch.zeros_like(Z) if wanted[0] else None
    grad_Gamma = torch.empty_like(Gamma) if wanted[1] else None
    logdets: list[Tensor] = []
    failed = torch.zeros((), dtype=torch.bool, device=Z.device)
    M, buffer = Z.new_empty(chunk, p), Z.new_empty(tile, p)
    for j in range(0, m, chunk):
        columns = slice(j, min(j + chunk, m))
        packed = M[: columns.stop - j]
        _accumulate_moments(packed, buffer, Z, Gamma[:, columns], alpha)
        logdet, chunk_failed = logdet_and_invert_(packed, d, any(wanted), batch)
        logdets.append(logdet)
        failed |= chunk_failed
        if grad_Gamma is not None:  # with a single tile the buffer still holds what it needs
            _write_grad_Gamma(grad_Gamma[:, columns], packed, buffer, Z, repack=tile < n)
        if grad_Z is not None:
            _add_grad_Z(grad_Z, packed, buffer, Z, Gamma[:, columns])
    for gradient in (grad_Z, grad_Gamma):
        if gradient is not None:
            gradient.mul_(alpha / m)
    value = torch.cat(logdets).mean()
    return _Evaluation(value, grad_Z, grad_Gamma, failed | ~value.isfinite())


def _accumulate_moments(
    packed: Tensor, buffer: Tensor, Z: Tensor, Gamma: Tensor, alpha: float
) -> None:
    """Fill ``packed`` (columns of Γ, p) with the packed M_j = I + α Σ_i Γ_ij z_i z_iᵀ."""
    tile = buffer.shape[0]
    for i in range(0, Z.shape[0], tile):
        rows = Z[i : i + tile]
        outer = pack_outer(rows, buffer[: rows.shape[0]])
        packed.addmm_(Gamma[i : i + tile].mT, outer, beta=0.0 if i == 0 else 1.0, alpha=alpha)
    add_identity_(packed, Z.shape[1])


def _write_grad_Gamma(
    grad_Gamma: Tensor, inverse: Tensor, buffer: Tensor, Z: Tensor, repack: bool
) -> None:
    """Write z_iᵀ M_j⁻¹ z_i, the inner product of packed z_i z_iᵀ and packed M_j⁻¹."""
    tile = buffer.shape[0]
    for i in range(0, Z.shape[0], tile):
        rows = Z[i : i + tile]
        outer = buffer[: rows.shape[0]]
        if repack:
            pack_outer(rows, outer)
        torch.mm(outer, inverse.mT, out=grad_Gamma[i : i + tile])


def _add_grad_Z(grad_Z: Tensor, inverse: Tensor, buffer: Tensor, Z: Tensor, Gamma: Tensor) -> None:
    """Add 2 (Σ_j Γ_ij M_j⁻¹) z_i over the columns j of this chunk."""
    tile = buffer.shape[0]
    for i in range(0, Z.shape[0], tile):
        rows = slice(i, i + tile)
        weighted = buffer[: Z[rows].shape[0]]
        torch.mm(Gamma[rows], inverse, out=weighted)
        add_quadratic_gradient_(grad_Z[rows], weighted, Z[rows])


def _even_parts(total: int, most: int) -> int:
    """Part size when ``total`` is split into as few parts of at most ``most`` as possible."""
    parts = -(-total // most)
    return -(-total // parts)
