"""The nearest doubly stochastic matrix, sparse."""

from __future__ import annotations

import warnings
from typing import Any, Literal, overload

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator, cg

from unbend.baselines.selfexpression import is_sparse
from unbend.exceptions import NotConvergedWarning

__all__ = ["project_doubly_stochastic"]

Vector = NDArray[np.float64]
Dual = tuple[Vector, Vector]

_FIRST = 16  # largest entries of each row and column that the first round looks at
_BLOCK = 1024
_MAX_ROUNDS = 50
_MAX_NEWTON = 200


@overload
def project_doubly_stochastic(
    K: Any, eta: float, *, tol: float = ..., start: Dual | None = ...
) -> sp.csr_array: ...
@overload
def project_doubly_stochastic(
    K: Any, eta: float, *, tol: float = ..., start: Dual | None = ..., return_dual: Literal[True]
) -> tuple[sp.csr_array, Dual]: ...
def project_doubly_stochastic(
    K: Any,
    eta: float,
    *,
    tol: float = 1e-8,
    start: Dual | None = None,
    return_dual: bool = False,
) -> sp.csr_array | tuple[sp.csr_array, Dual]:
    """min over doubly stochastic A of −⟨K, A⟩ + η/2 ‖A‖², the projection of K/η.

    The solution is A_ij = (K_ij − α_i − β_j)₊ / η, with α and β the minimisers of the dual
    Σ_ij (K_ij − α_i − β_j)₊² / (2η) + Σα + Σβ. The dual is solved on a subset of the entries.
    Entries outside it with positive K_ij − α_i − β_j are added until there are none.

    Parameters
    ----------
    K : array or sparse array of shape (n, n)
        Non-negative similarities, not necessarily symmetric.
    tol : float
        Largest accepted error of a row or column sum.
    start : pair of arrays, optional
        α and β of a similar problem.

    Examples
    --------
    >>> project_doubly_stochastic(np.array([[0.0, 2.0], [2.0, 0.0]]), 0.5).toarray()
    array([[0., 1.],
           [1., 0.]])
    """
    n = K.shape[0]
    K = K.tocsr().astype(np.float64) if is_sparse(K) else np.asarray(K, dtype=np.float64)
    scale = float(abs(K).max()) or 1.0
    K, eta = K / scale, eta / scale  # does not change the solution
    support = _first_support(K)
    alpha, beta = start if start is not None else (np.full(n, -eta / n), np.zeros(n))
    alpha, beta = (alpha / scale, beta / scale) if start is not None else (alpha, beta)
    for _ in range(_MAX_ROUNDS):
        alpha, beta = _solve_dual(_values(K, support), support, eta, alpha, beta, tol)
        fresh = _violations(K, alpha, beta, support, tol * eta)
        if fresh is None:
            break
        support = _union(support, fresh)
    else:
        warnings.warn("doubly stochastic projection did not converge", NotConvergedWarning,
                      stacklevel=2)  # fmt: skip
    rows, columns = support
    A = sp.csr_array(
        (np.maximum(_values(K, support) - alpha[rows] - beta[columns], 0) / eta, support),
        shape=(n, n),
    )
    A.eliminate_zeros()
    return (A, (alpha * scale, beta * scale)) if return_dual else A


Support = tuple[NDArray[np.int64], NDArray[np.int64]]


def _values(K: Any, support: Support) -> Vector:
    return np.asarray(K[support]).ravel().astype(np.float64)


def _first_support(K: Any) -> Support:
    """The diagonal (so that a solution exists) and the largest entries of rows and columns."""
    n = K.shape[0]
    each = np.arange(n)
    if is_sparse(K):
        entries = K.tocoo()
        rows, columns = entries.coords
    else:
        few = min(_FIRST, n)
        by_row = np.argpartition(-K, few - 1, axis=1)[:, :few].ravel()
        by_column = np.argpartition(-K, few - 1, axis=0)[:few].T.ravel()
        owner = np.repeat(each, few)
        rows, columns = np.r_[owner, by_column], np.r_[by_row, owner]
    return _union((each, each), (rows.astype(np.int64), columns.astype(np.int64)), n)


def _union(a: Support, b: Support, n: int | None = None) -> Support:
    n = n or int(a[0].max()) + 1  # the diagonal is always there
    keys = np.unique(np.r_[a[0] * n + a[1], b[0] * n + b[1]])
    return keys // n, keys % n


def _violations(
    K: Any, alpha: Vector, beta: Vector, support: Support, slack: float
) -> Support | None:
    """Positive entries of K − α1ᵀ − 1βᵀ outside the support, at most the largest few per row."""
    n, found = len(alpha), []
    inside = sp.csr_array((np.ones(len(support[0]), dtype=bool), support), shape=(n, n))
    for start in range(0, n, _BLOCK):
        rows = slice(start, min(start + _BLOCK, n))
        part = K[rows].toarray() if is_sparse(K) else K[rows].copy()
        part -= alpha[rows, None] + beta
        part[inside[rows].toarray()] = -np.inf
        i, j = np.nonzero(part > slack)
        if len(i) > 64 * len(part):  # too many: add only the largest in this round
            few = min(64, n)
            j = np.argpartition(-part, few - 1, axis=1)[:, :few].ravel()
            i = np.repeat(np.arange(len(part)), few)
            i, j = i[part[i, j] > slack], j[part[i, j] > slack]
        found.append((i + start, j))
    i, j = (np.concatenate(x) for x in zip(*found, strict=True))
    return (i, j) if len(i) else None


def _solve_dual(
    k: Vector, support: Support, eta: float, alpha: Vector, beta: Vector, tol: float
) -> Dual:
    """Semismooth Newton steps with a line search on the dual over the support's entries."""
    n, (rows, columns) = len(alpha), support
    z = np.r_[alpha, beta]

    def slack(z: Vector) -> Vector:
        return np.maximum(k - z[rows] - z[n + columns], 0)

    def value(z: Vector) -> float:
        return float((slack(z) ** 2).sum() / (2 * eta) + z.sum())

    for _ in range(_MAX_NEWTON):
        s = slack(z)
        sums = np.r_[np.bincount(rows, s, n), np.bincount(columns, s, n)] / eta
        gradient = 1 - sums
        error = float(np.abs(gradient).max())
        if error <= tol:
            break
        direction = _newton_direction(s > 0, support, eta, gradient, error)
        t, now, slope = 1.0, value(z), float(gradient @ direction)
        while value(z + t * direction) > now + 1e-4 * t * slope and t > 1e-12:
            t /= 2
        z = z + t * direction
    else:
        message = f"doubly stochastic projection: sums off by {error:.1e}, wanted {tol:.0e}"
        warnings.warn(message, NotConvergedWarning, stacklevel=3)
    return z[:n], z[n:]


def _newton_direction(
    positive: NDArray[np.bool_], support: Support, eta: float, gradient: Vector, error: float
) -> Vector:
    """Solve (H + small I) d = −gradient with H = [Diag(r) M; Mᵀ Diag(c)] / η."""
    n = len(gradient) // 2
    rows, columns = support[0][positive], support[1][positive]
    M = sp.csr_array((np.ones(len(rows)), (rows, columns)), shape=(n, n))
    counts = np.r_[np.bincount(rows, minlength=n), np.bincount(columns, minlength=n)]
    # H is singular along (1, −1) and at empty rows; the shift keeps the step finite.
    diagonal = counts + max(1e-10, min(1e-2, error**2 * 1e-2))

    def product(v: Vector) -> Vector:
        v = v.ravel()
        out: Vector = diagonal * v + np.r_[M @ v[n:], M.T @ v[:n]]
        return out

    H = LinearOperator((2 * n, 2 * n), matvec=product, dtype=np.float64)
    P = LinearOperator((2 * n, 2 * n), matvec=lambda v: v.ravel() / diagonal, dtype=np.float64)
    rtol = min(1e-2, error * 0.1)
    solution: Vector = cg(H, -eta * gradient, rtol=rtol, maxiter=500, M=P)[0]
    return solution
