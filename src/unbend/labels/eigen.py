"""Leading eigenvectors of a symmetric matrix, given only its products with vectors."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from unbend.exceptions import NotConvergedWarning
from unbend.functional.spectrum import eigh
from unbend.progress import Progress, Tick, silent

__all__ = ["Eigenpairs", "leading_eigenpairs"]


@dataclass(frozen=True)
class Eigenpairs:
    """Eigenvalues (p,), largest first, with orthonormal eigenvectors (n, p)."""

    values: Tensor
    vectors: Tensor
    residual: float


def leading_eigenpairs(
    apply: Callable[[Tensor], Tensor],
    start: Tensor,
    p: int,
    *,
    n_exact: int | None = None,
    tol: float = 1e-3,
    max_iter: int = 40,
    n_blocks: int = 4,
    progress: Progress = silent,
) -> Eigenpairs:
    """Block Krylov iteration with restarts for the p largest eigenvalues.

    The basis grows by one block (the residuals of the current Ritz vectors) per product with
    the matrix; when it holds ``n_blocks`` blocks, it restarts from the Ritz vectors. Products
    with the basis are stored, so each step costs exactly one block product.

    Parameters
    ----------
    apply : callable
        The product ``X -> A X`` with X of shape (n, b).
    start : Tensor of shape (n, b)
        First block, b ≥ p; a few more columns than p speed up convergence.
    p : int
        Number of eigenpairs wanted.
    n_exact : int, optional
        How many of them must meet the tolerance, all p by default. A pair beyond the spectral
        gap has many close neighbours and would take most of the time, and the error of its
        eigenvalue is only of second order.
    tol : float
        Largest accepted ‖A x − λ x‖ over these pairs, for unit x. The error of the subspace
        is about tol / gap; at the default it is far too small to change a label.
    max_iter : int
        Largest number of block products.
    n_blocks : int
        Size of the basis in blocks before a restart.
    progress : callable
        Receives one tick of stage ``"eigenvectors"`` per product.
    """
    b, n_exact = start.shape[1], n_exact or p
    basis = _orthonormal_to(start[:, :0], start)
    image = apply(basis)
    residual = float("inf")
    for step in range(1, max_iter + 1):
        values, rotation = eigh(_symmetric(basis.T @ image))
        keep = rotation[:, -b:].flip(1)
        values, vectors, product = values[-b:].flip(0), basis @ keep, image @ keep
        defects = product - vectors * values
        residual = float(defects[:, :n_exact].norm(dim=0).max())
        progress(Tick("eigenvectors", step, max_iter, {"residual": residual}))
        if residual <= tol or step == max_iter or basis.shape[0] <= basis.shape[1] + b:
            break
        if basis.shape[1] >= n_blocks * b:
            basis, image = vectors, product
        fresh = _orthonormal_to(basis, defects)
        basis, image = torch.cat([basis, fresh], 1), torch.cat([image, apply(fresh)], 1)
    if residual > tol:
        message = f"eigenvectors of the membership: residual {residual:.1e}, wanted {tol:.0e}"
        warnings.warn(message, NotConvergedWarning, stacklevel=2)
    return Eigenpairs(values[:p], vectors[:, :p], residual)


def _symmetric(T: Tensor) -> Tensor:
    return (T + T.T) / 2


def _orthonormal_to(basis: Tensor, X: Tensor) -> Tensor:
    """An orthonormal basis of X outside the span of ``basis``."""
    # Converged columns are rounding noise. Scaling to unit length keeps the factor accurate.
    X = X / X.norm(dim=0).clamp_min(torch.finfo(X.dtype).tiny)
    for _ in range(2):
        X = _orthonormal(X - basis @ (basis.T @ X))
    return X


def _orthonormal(X: Tensor) -> Tensor:
    """An orthonormal basis of the columns of X.

    Uses a Cholesky factor of the Gram matrix, which is several times faster than Householder QR
    on tall matrices. Falls back to QR if the columns are too dependent for that.
    """
    factor, failed = torch.linalg.cholesky_ex(X.T @ X)
    pivots = factor.diagonal()
    if int(failed) or float(pivots.min()) < 0.03 * float(pivots.max()):
        Q: Tensor = torch.linalg.qr(X)[0]
    else:
        Q = torch.linalg.solve_triangular(factor.T, X, upper=True, left=False)
    return Q
