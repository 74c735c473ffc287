"""Doubly stochastic subspace clustering."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from unbend.baselines.ensc import elastic_net_codes
from unbend.baselines.lsr import lsr_codes
from unbend.baselines.projection import project_doubly_stochastic
from unbend.baselines.registry import peer
from unbend.baselines.selfexpression import Affinity, SelfExpressive, symmetrise
from unbend.exceptions import NotConvergedWarning

__all__ = ["DSSC", "joint_codes"]


@peer("j-dssc", "doubly stochastic affinity and self-expression", year=2021, joint=True)
@peer("a-dssc", "doubly stochastic affinity after self-expression", year=2021)
@dataclass(eq=False, repr=False, kw_only=True)
class DSSC(SelfExpressive):
    """Doubly stochastic subspace clustering (Lim, Vidal and Haeffele [1]_).

    The affinity A that spectral clustering receives is doubly stochastic (rows and columns sum
    to one) by itself. The joint model, J-DSSC, is (columns of X are samples of unit length)

        min_{C, A}  ½‖X − X C‖² + η₁/2 ‖ |C| − η₂ A ‖² + η₃ ‖C‖₁,   diag(C) = 0,  A ∈ Ω,

    with |C| replaced by C₊ + C₋ for C = C₊ − C₋ and both non-negative, which makes it convex.
    The approximate one, A-DSSC, takes one step after the other: C from
    ½‖X − X C‖² + η₁/2 ‖C‖² + η₃ ‖C‖₁, then A = min_{A ∈ Ω} −⟨|C|, A⟩ + η₂/2 ‖A‖².

    Both reach the paper's minimisers with other solvers. A comes from Newton's method on the dual
    over a growing set of entries; the paper uses L-BFGS. J-DSSC eliminates A, which leaves half the
    squared distance of C₊ + C₋ to η₂Ω, and uses accelerated projected gradients; the paper uses an
    alternating, linearised method of multipliers.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters.
    joint : bool, default=False
        J-DSSC, or A-DSSC when False. The joint model costs some hundred times n²d.
    eta1 : float, optional
        η₁, the weight of the codes' size; 10 by default, 1 in the joint model.
    eta2 : float, optional
        η₂: a small value makes A sparse, a large one makes it even; 0.01 by default. In the joint
        model it also sets the size of the codes, and is 0.5 by default.
    eta3 : float, default=0
        η₃, the weight of sparsity; 0 has a closed form (least squares).
    max_iter : int, default=1000
        Most gradient steps of the joint model.
    tol : float, default=1e-4
        The joint model stops when the projected gradient, relative to that at zero, is this small.
    random_state : int, RandomState or None, default=None
        Seed of the eigenvectors' start and of k-means.

    Attributes
    ----------
    labels_ : ndarray of shape (n,)
        Cluster of each sample, numbered by falling size.
    affinity_matrix_ : csr_array of shape (n, n)
        (A + Aᵀ) / 2, doubly stochastic.
    n_iter_ : int
        Gradient steps of the joint model; 1 for A-DSSC, which has none.
    n_features_in_ : int
        Numbers in one sample.

    References
    ----------
    .. [1] D. Lim, R. Vidal, B. D. Haeffele, "Doubly stochastic subspace clustering",
       arXiv:2011.14859, 2020.

    Examples
    --------
    >>> from unbend.baselines import DSSC
    >>> X = [[1, 0, 0], [2, 1, 0], [1, 3, 0], [0, 0, 1], [0, 0, -2]]
    >>> DSSC(2, random_state=0).fit(X).labels_.tolist()
    [0, 0, 0, 1, 1]
    """

    joint: bool = False
    eta1: float | None = None
    eta2: float | None = None
    eta3: float = 0.0
    max_iter: int = 1000
    tol: float = 1e-4

    def _affinity(self, X: NDArray[Any]) -> Affinity:
        X = X.astype(np.float64)
        eta1, eta2, eta3 = self._etas()
        C, self.n_iter_ = self._codes(X), 1
        if self.joint:
            dense = C.toarray() if isinstance(C, sp.csr_array) else C
            plus, minus, self.n_iter_ = joint_codes(
                X, dense, eta1, eta2, eta3, self.max_iter, self.tol
            )
            C = plus + minus
        return symmetrise(project_doubly_stochastic(abs(C), eta2))

    def _codes(self, X: NDArray[Any]) -> Affinity:
        eta1, _, eta3 = self._etas()
        if eta3 == 0:
            return lsr_codes(X, eta1)
        return elastic_net_codes(X, 1 / (eta1 + eta3), eta3 / (eta1 + eta3))

    def _etas(self) -> tuple[float, float, float]:
        eta1, eta2 = (1.0, 0.5) if self.joint else (10.0, 0.01)
        eta1 = eta1 if self.eta1 is None else self.eta1
        return eta1, eta2 if self.eta2 is None else self.eta2, self.eta3


def joint_codes(
    X: NDArray[Any],
    start: NDArray[Any],
    eta1: float,
    eta2: float,
    eta3: float,
    max_iter: int = 1000,
    tol: float = 1e-4,
) -> tuple[NDArray[np.float64], NDArray[np.float64], int]:
    """C₊ and C₋ of the joint model, (n, n) each, by accelerated projected gradients; and steps.

    The gradient of ½ dist²(S, η₂Ω) is S − η₂A with A the projection of S/η₂. Differences and
    sums of C₊ and C₋ are orthogonal, so the smoothness is 2 max(‖X‖², η₁).
    """
    step = 0.5 / max(float(np.linalg.norm(X, 2)) ** 2, eta1)
    scale = float(np.linalg.norm(X @ X.T))  # of the gradient at zero
    old = np.stack([np.maximum(start, 0), np.maximum(-start, 0)])
    point, momentum, dual = old, 1.0, None
    for n_iter in range(1, max_iter + 1):
        size, signed = point.sum(0), point[0] - point[1]
        A, dual = project_doubly_stochastic(size, eta2, start=dual, return_dual=True)
        shared = eta1 * (size - eta2 * A.toarray()) + eta3
        fit = (signed @ X - X) @ X.T
        new = np.maximum(point - step * np.stack([shared + fit, shared - fit]), 0)
        new[:, np.arange(len(X)), np.arange(len(X))] = 0
        if float(np.linalg.norm(new - point)) <= tol * step * scale:
            return new[0], new[1], n_iter
        if ((point - new) * (new - old)).sum() > 0:  # momentum points uphill: restart it
            momentum = 1.0
        faster = (1 + np.sqrt(1 + 4 * momentum**2)) / 2
        point = new + (momentum - 1) / faster * (new - old)
        old, momentum = new, faster
    message = f"J-DSSC did not converge in {max_iter} steps; raise max_iter or tol"
    warnings.warn(message, NotConvergedWarning, stacklevel=4)
    return old[0], old[1], max_iter
