"""Log-determinants and inverses of many small symmetric matrices, by blocked Cholesky.

A batched LAPACK call factorises one matrix after the other on one thread. Here the
recursion runs over the blocks of :mod:`unbend.functional.packing` instead and every step is a
product over the whole batch; only the leaves use LAPACK. With M = L Lᵀ cut in two,

    L₁₁ from M₁₁;   L₂₁ = M₂₁ L₁₁⁻ᵀ;   L₂₂ from M₂₂ − L₂₁ L₂₁ᵀ;
    X = L⁻¹ has X₂₁ = −X₂₂ L₂₁ X₁₁;    M⁻¹ = Xᵀ X.

Eliminating with explicit inverses of M₁₁ would be shorter but squares the condition number;
with L₁₁⁻¹ the errors are those of an ordinary Cholesky factorisation.
"""

from __future__ import annotations

import torch
from torch import Tensor

from unbend.functional.packing import Node, layout, off_diagonals_doubled, triangle_of

__all__ = ["logdet_and_invert_"]


def logdet_and_invert_(
    packed: Tensor, d: int, invert: bool, batch: int | None = None
) -> tuple[Tensor, Tensor]:
    """Log-determinants of packed positive definite matrices, which are inverted in place.

    Parameters
    ----------
    packed : Tensor of shape (b, p)
        Matrices of size d in the layout of ``layout(d)``. Overwritten: with ``invert`` by the
        packed inverses, their off-diagonal numbers doubled; otherwise by intermediate values.
    d : int
        Size of the matrices.
    invert : bool
        Whether the inverses are wanted.
    batch : int, optional
        How many matrices to work on at a time; all by default.

    Returns
    -------
    logdet : Tensor of shape (b,)
    failed : Tensor, scalar bool
        Whether any matrix was not numerically positive definite.
    """
    root = layout(d)
    batch = min(batch or packed.shape[0], packed.shape[0])
    # Only lower blocks are ever written, so that the zeros above them serve all batches.
    workspace = packed.new_zeros(batch, d, d)
    failed = torch.zeros((), dtype=torch.bool, device=packed.device)
    logdets = []
    for part in torch.split(packed, batch):
        X = workspace[: part.shape[0]]
        logdets.append(_factor(root, part, X, failed, invert))
        if invert:
            _write_inverse(root, part, X)
    return torch.cat(logdets), failed


def _factor(node: Node, packed: Tensor, X: Tensor, failed: Tensor, invert: bool) -> Tensor:
    """Return the node's log-determinants and put its L⁻¹ into ``X`` if ``invert``."""
    rows = slice(node.lo, node.hi)
    if node.first is None or node.second is None:
        L, info = torch.linalg.cholesky_ex(node.leaf_matrices(packed))
        failed |= (info > 0).any()
        if invert:
            eye = torch.eye(L.shape[-1], dtype=L.dtype, device=L.device).expand_as(L)
            X[:, rows, rows] = torch.linalg.solve_triangular(L, eye, upper=False)
        leaf_logdet: Tensor = 2 * L.diagonal(dim1=1, dim2=2).log().sum(1)
        return leaf_logdet
    above, below = slice(node.lo, node.mid), slice(node.mid, node.hi)
    logdet = _factor(node.first, packed, X, failed, invert=True)
    X_first = X[:, above, above]
    L_cross = node.cross(packed) @ X_first.mT
    _subtract_gram_(node.second, packed, L_cross, node.mid)
    logdet = logdet + _factor(node.second, packed, X, failed, invert)
    if invert:
        X[:, below, above] = (X[:, below, below] @ (L_cross @ X_first)).neg_()
    return logdet


def _subtract_gram_(node: Node, packed: Tensor, V: Tensor, lo: int) -> None:
    """Subtract V Vᵀ from the block ``node``; row 0 of ``V`` belongs to row ``lo`` of the matrix."""
    if node.first is None or node.second is None:
        rows = V[:, node.lo - lo : node.hi - lo]
        node.leaf(packed).sub_(triangle_of(rows @ rows.mT))
        return
    above, below = V[:, node.lo - lo : node.mid - lo], V[:, node.mid - lo : node.hi - lo]
    node.cross(packed).sub_(below @ above.mT)
    _subtract_gram_(node.first, packed, V, lo)
    _subtract_gram_(node.second, packed, V, lo)


def _write_inverse(node: Node, packed: Tensor, X: Tensor) -> None:
    """Write the node's blocks of Xᵀ X into ``packed``, off-diagonals doubled.

    Column s of the lower triangular X is zero above row s, so products start at row s.
    """
    if node.first is None or node.second is None:
        columns = X[:, node.lo :, node.lo : node.hi]
        node.leaf(packed).copy_(off_diagonals_doubled(columns.mT @ columns))
        return
    below, above = X[:, node.mid :, node.mid : node.hi], X[:, node.mid :, node.lo : node.mid]
    torch.mul(below.mT @ above, 2, out=node.cross(packed))
    _write_inverse(node.first, packed, X)
    _write_inverse(node.second, packed, X)
