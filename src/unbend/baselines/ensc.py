"""Elastic-net subspace clustering."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor

from unbend.baselines.registry import peer
from unbend.baselines.selfexpression import SelfExpressive, blocks
from unbend.exceptions import NotConvergedWarning

__all__ = ["EnSC", "elastic_net_codes", "elastic_net_weights"]

_BLOCK = 64  # rows solved together: few enough that their Gram matrices stay in the cache
_FIRST_WIDTH = 96  # candidates of the first round
_SPARE = 64  # room for new candidates beyond the support
_MAX_ROUNDS = 200
_MAX_NEWTON = 100


@peer("ensc", "elastic-net self-expression", year=2016)
@dataclass(eq=False, repr=False, kw_only=True)
class EnSC(SelfExpressive):
    """Elastic-net subspace clustering (You, Li, Robinson and Vidal [1]_).

    Every sample x_j of unit length is written as a combination of the others,

        min_c  λ‖c‖₁ + (1 − λ)/2 ‖c‖² + γ_j/2 ‖x_j − X c‖²   subject to  c_j = 0,

    and |C| + |C|ᵀ goes through spectral clustering. As in the paper, γ_j is ``gamma`` times
    the smallest weight that has a solution other than zero, λ / max_{i≠j} |x_iᵀ x_j|.

    The solver is the paper's Algorithm 1 (ORGEN): solve on few candidates, form the oracle
    point δ = γ(x − X c), and add the samples of its region |x_iᵀ δ| > λ, until there are none.
    Unlike the paper, which uses coordinate descent, it solves many small problems at a time,
    exactly, by Newton's method on their piecewise quadratic dual.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters.
    gamma : float, default=50
        How many times γ exceeds its smallest useful value; > 1.
    l1_ratio : float, default=0.9
        λ, in (0, 1): nearer to 1 is sparser.
    random_state : int, RandomState or None, default=None
        Seed of the eigenvectors' start and of k-means.

    Attributes
    ----------
    labels_ : ndarray of shape (n,)
        Cluster of each sample, numbered by falling size.
    affinity_matrix_ : csr_array of shape (n, n)
        (|C| + |C|ᵀ) / 2.
    n_features_in_ : int
        Numbers in one sample.

    References
    ----------
    .. [1] C. You, C.-G. Li, D. P. Robinson, R. Vidal, "Oracle based active set algorithm for
       scalable elastic net subspace clustering", CVPR 2016.

    Examples
    --------
    >>> from unbend.baselines import EnSC
    >>> X = [[1, 0, 0], [2, 1, 0], [1, 3, 0], [0, 0, 1], [0, 0, -2]]
    >>> EnSC(2, random_state=0).fit(X).labels_.tolist()
    [0, 0, 0, 1, 1]
    """

    gamma: float = 50.0
    l1_ratio: float = 0.9

    def _codes(self, X: NDArray[Any]) -> sp.csr_array:
        return elastic_net_codes(
            X, elastic_net_weights(X, self.gamma, self.l1_ratio), self.l1_ratio
        )


def elastic_net_weights(X: NDArray[Any], gamma: float, l1_ratio: float) -> NDArray[np.float64]:
    """γ_j of every sample: ``gamma`` times the smallest one with a solution other than zero."""
    unit = torch.from_numpy(np.ascontiguousarray(X, dtype=np.float64))
    rows = blocks(torch.arange(len(unit)), _BLOCK)
    largest = torch.cat([_correlations(unit, part).abs().amax(1) for part in rows])
    # A sample at right angles to all others has no code at any weight.
    tiny = torch.finfo(unit.dtype).eps
    weights: NDArray[np.float64] = (gamma * l1_ratio / largest.clamp_min(tiny)).numpy()
    return weights


def elastic_net_codes(
    X: NDArray[Any], weights: Any, l1_ratio: float, rows: Any = None
) -> sp.csr_array:
    """Elastic-net codes of unit rows of X; row j of the result is the code of sample j.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Samples of unit length.
    weights : float or array of shape (n,)
        γ of every sample.
    l1_ratio : float
        λ.
    rows : array of int, optional
        Only these samples get a code, all by default; all serve as candidates.
    """
    unit = torch.from_numpy(np.ascontiguousarray(X, dtype=np.float64))
    weight = torch.from_numpy(np.broadcast_to(weights, len(X)).astype(np.float64))
    chosen = torch.arange(len(unit)) if rows is None else torch.as_tensor(np.asarray(rows))
    parts = [_solve_block(unit, part, weight[part], l1_ratio) for part in blocks(chosen, _BLOCK)]
    row, column, value = (torch.cat(x).numpy() for x in zip(*parts, strict=True))
    position = np.empty(len(unit), dtype=np.int64)
    position[chosen.numpy()] = np.arange(len(chosen))
    shape = (len(chosen), len(unit))
    return sp.csr_array((value, (position[row], column)), shape=shape)


def _correlations(X: Tensor, rows: Tensor, left: Tensor | None = None) -> Tensor:
    """Inner products of samples (or of ``left``) with all samples, zero with themselves."""
    P = (X[rows] if left is None else left) @ X.T
    P[torch.arange(len(rows)), rows] = 0.0
    return P


def _solve_block(
    X: Tensor, rows: Tensor, weight: Tensor, l1_ratio: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Codes of some samples as (row, column, value): the rounds of the oracle."""
    n, found = len(X), []
    score, width = _correlations(X, rows).abs_(), min(_FIRST_WIDTH, n - 1)
    active = weight * score.amax(1) > l1_ratio  # for the others c = 0 is the solution
    rows, weight, score = rows[active], weight[active], score[active]
    code = torch.zeros_like(score)
    for _ in range(_MAX_ROUNDS):
        if not len(rows):
            break
        T = score.topk(width, dim=1).indices
        c = _solve_small(X, rows, T, weight, l1_ratio, code.gather(1, T))
        delta = weight[:, None] * (X[rows] - torch.bmm(c[:, None], _gather(X, T))[:, 0])
        score = _correlations(X, rows, delta).abs_()
        outside = score.clone().scatter_(1, T, 0.0)
        done = outside.amax(1) <= l1_ratio * (1 + 1e-9)
        found.append(_entries(rows[done], T[done], c[done]))
        # Keep the support, so that the objective decreases; then add the highest scores.
        score.scatter_(1, T, torch.where(c != 0, torch.inf, score.gather(1, T)))
        keep = ~done
        rows, weight, score = rows[keep], weight[keep], score[keep]
        code = torch.zeros_like(score).scatter_(1, T[keep], c[keep])
        if len(rows):
            width = min(n - 1, max(width, int((c[keep] != 0).sum(1).max()) + _SPARE))
    else:
        _warn("the elastic net did not converge: candidates changed in the last round")
        found.append(_entries(rows, T[keep], c[keep]))
    if not found:
        empty = rows.new_empty(0)
        return empty, empty, X.new_empty(0)
    row, column, value = (torch.cat(x) for x in zip(*found, strict=True))
    return row, column, value


def _gather(X: Tensor, T: Tensor) -> Tensor:
    """X[T], several times faster."""
    return X.index_select(0, T.reshape(-1)).view(*T.shape, -1)


def _entries(rows: Tensor, T: Tensor, c: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    which, slot = c.nonzero(as_tuple=True)
    return rows[which], T[which, slot], c[which, slot]


@dataclass
class _Small:
    """Problems on m candidates each: G = X_T X_Tᵀ, b = X_T x, of shapes (r, m, m), (r, m)."""

    G: Tensor
    b: Tensor
    weight: Tensor  # γ, as a column
    l1: float

    def subset(self, keep: Tensor) -> _Small:
        return _Small(self.G[keep], self.b[keep], self.weight[keep], self.l1)

    def oracle(self, a: Tensor) -> Tensor:
        """p = X_T δ of the dual point δ = γ(x − X_Tᵀ a)."""
        return self.weight * (self.b - torch.bmm(self.G, a[:, :, None])[:, :, 0])

    def code(self, p: Tensor) -> Tensor:
        """Primal code of a dual point: c = soft(p, λ) / (1 − λ)."""
        shrunk: Tensor = torch.nn.functional.softshrink(p, self.l1) / (1 - self.l1)
        return shrunk

    def newton(self, sign: Tensor) -> Tensor:
        """Code on the support ``sign`` ≠ 0 with these signs: ((1 − λ)/γ I + G) c = b − λ/γ s.

        The system has the size of the largest support, most often a third of the candidates.
        """
        inside, T = sign.abs().topk(int((sign != 0).sum(1).max()), dim=1, sorted=False)
        square = T[:, :, None] * sign.shape[1] + T[:, None, :]
        M = self.G.flatten(1).gather(1, square.flatten(1)).view_as(square)  # faster than by index
        M.mul_(inside[:, :, None]).mul_(inside[:, None, :])
        M.diagonal(dim1=1, dim2=2).add_((1 - self.l1) / self.weight)
        right = inside * self.b.gather(1, T) - self.l1 / self.weight * sign.gather(1, T)
        factor = torch.linalg.cholesky_ex(M)[0]
        solution = torch.cholesky_solve(right[:, :, None], factor)[:, :, 0]
        return torch.zeros_like(sign).scatter_(1, T, solution * inside)


def _solve_small(
    X: Tensor, rows: Tensor, T: Tensor, weight: Tensor, l1: float, start: Tensor
) -> Tensor:
    """Exact codes on the candidates T by semismooth Newton steps on the dual,

        F(δ) = ‖δ‖²/(2γ) − δᵀx + Σ_i (|x_iᵀδ| − λ)₊² / (2(1 − λ)),

    with an exact line search. A full step that keeps support and signs is the solution.
    """  # fmt: skip
    atoms = _gather(X, T)
    b = torch.bmm(atoms, X[rows][:, :, None])[:, :, 0]
    small = _Small(torch.bmm(atoms, atoms.transpose(1, 2)), b, weight[:, None], l1)
    result = torch.zeros_like(b)
    open_ = torch.arange(len(b))
    a, p = start, small.oracle(start)  # the dual point is δ = γ(x − X_Tᵀ a)
    for _ in range(_MAX_NEWTON):
        sign = torch.sign(small.code(p))
        c = small.newton(sign)
        p_new = small.oracle(c)
        done = (torch.sign(small.code(p_new)) == sign).all(1)
        result[open_[done]] = c[done] * (sign[done] != 0)
        keep = ~done
        if not bool(keep.any()):
            return result
        open_, small = open_[keep], small.subset(keep)
        a, c, p, p_new = a[keep], c[keep], p[keep], p_new[keep]
        t = _line_search(small, a, c - a, p, p_new - p)
        a, p = a + t * (c - a), p + t * (p_new - p)
    _warn("Newton's method of the elastic net did not converge")
    result[open_] = small.code(p)
    return result


def _line_search(small: _Small, a: Tensor, da: Tensor, p: Tensor, dp: Tensor) -> Tensor:
    """Minimise the convex F on the segment from the old point to Newton's by bisection."""
    low, high = torch.zeros_like(p[:, :1]), torch.ones_like(p[:, :1])
    for _ in range(16):
        t = (low + high) / 2
        # F' = ddᵀ(δ/γ − x + X_Tᵀ c(p)) with dd = −γ X_Tᵀ da and δ/γ − x = −X_Tᵀ a.
        slope = (dp * (small.code(p + t * dp) - a - t * da)).sum(1, keepdim=True)
        low, high = torch.where(slope < 0, t, low), torch.where(slope < 0, high, t)
    return (low + high) / 2


def _warn(message: str) -> None:
    warnings.warn(message, NotConvergedWarning, stacklevel=4)
