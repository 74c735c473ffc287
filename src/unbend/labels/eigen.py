"""Leading eigenvectors of a symmetric matrix that is known only through its products."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from unbend.exceptions import NotConvergedWarning
from unbend.progress import Progress, Tick, silent

__all__ = ["Eigenpairs", "leading_eigenpairs"]


@dataclass(frozen=True)
class Eigenpairs:
    """Eigenvalues (p,), falling, with orthonormal eigenvectors (n, p)."""

    values: Tensor
    vectors: Tensor
    residual: float


def leading_eigenpairs(
    apply: Callable[[Tensor], Tensor],
    start: Tensor,
    p: int,
    *,
    tol: float = 1e-3,
    max_iter: int = 60,
    n_blocks: int = 4,
    progress: Progress = silent,
) -> Eigenpairs:
    """Block Krylov iteration with restarts for the p largest eigenvalues.

    The basis grows by one block (the residuals of the current Ritz vectors) per product with
    the matrix; when it holds ``n_blocks`` blocks it is cut back to the Ritz vectors. Products
    of the basis are kept, so each step costs exactly one block product.

    Parameters
    ----------
    apply : callable
        The product ``X -> A X`` with X of shape (n, b).
    start : Tensor of shape (n, b)
        First block, b ≥ p; a few columns more than p speed convergence up.
    p : int
        Number of eigenpairs wanted.
    tol : float
        Largest accepted ‖A x − λ x‖ over the p pairs, for unit x. An error of the subspace
        is about tol / gap, far below what moves a label at the default.
    max_iter : int
        Number of block products at most.
    n_blocks : int
        Size of the basis in blocks before a restart.
    progress : callable
        Receives one tick of stage ``"eigenvectors"`` per product.
    """
    b = start.shape[1]
    basis = torch.linalg.qr(start)[0]
    image = apply(basis)
    residual = float("inf")
    for step in range(1, max_iter + 1):
        values, rotation = torch.linalg.eigh(_symmetric(basis.T @ image))
        keep = rotation[:, -b:].flip(1)
        values, vectors, product = values[-b:].flip(0), basis @ keep, image @ keep
        defects = product - vectors * values
        residual = float(defects[:, :p].norm(dim=0).max())
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
    # Converged columns are pure rounding noise; unit length first keeps the QR meaningful.
    X = X / X.norm(dim=0).clamp_min(torch.finfo(X.dtype).tiny)
    for _ in range(2):
        X = torch.linalg.qr(X - basis @ (basis.T @ X))[0]
    return X
