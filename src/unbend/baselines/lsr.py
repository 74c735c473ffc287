"""Subspace clustering by least-squares regression."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from unbend.baselines.registry import peer
from unbend.baselines.selfexpression import SelfExpressive

__all__ = ["LSR", "lsr_codes"]


@peer("lsr", "least-squares self-expression", year=2012)
@dataclass(eq=False, repr=False, kw_only=True)
class LSR(SelfExpressive):
    """Subspace clustering by least-squares regression (Lu et al. [1]_).

    Every sample (a column of X here, of unit length) is written as a combination of all,

        min_C  ‖X − X C‖² + α ‖C‖²,

    in closed form. With D = (XᵀX + αI)⁻¹ the solution is D XᵀX (the paper's LSR2), and with the
    further constraint diag(C) = 0 it is C_ij = −D_ij / D_jj off the diagonal (LSR1).
    (|C| + |C|ᵀ)/2 goes through spectral clustering. D comes from the smaller of the two Gram
    matrices, so that time grows with n² min(n, d); memory holds (n, n).

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters.
    alpha : float, default=0.1
        Weight of ‖C‖², the paper's λ.
    zero_diagonal : bool, default=True
        LSR1, or LSR2 when False.
    random_state : int, RandomState or None, default=None
        Seed of the eigenvectors' start and of k-means.

    Attributes
    ----------
    labels_ : ndarray of shape (n,)
        Cluster of each sample, numbered by falling size.
    affinity_matrix_ : ndarray of shape (n, n)
        (|C| + |C|ᵀ) / 2.
    n_features_in_ : int
        Numbers in one sample.

    References
    ----------
    .. [1] C.-Y. Lu, H. Min, Z.-Q. Zhao, L. Zhu, D.-S. Huang, S. Yan, "Robust and efficient
       subspace segmentation via least squares regression", ECCV 2012.

    Examples
    --------
    >>> from unbend.baselines import LSR
    >>> X = [[1, 0, 0], [2, 1, 0], [1, 3, 0], [0, 0, 1], [0, 0, -2]]
    >>> LSR(2, random_state=0).fit(X).labels_.tolist()
    [0, 0, 0, 1, 1]
    """

    alpha: float = 0.1
    zero_diagonal: bool = True

    def _codes(self, X: NDArray[Any]) -> NDArray[Any]:
        return lsr_codes(X, self.alpha, zero_diagonal=self.zero_diagonal)


def lsr_codes(X: NDArray[Any], alpha: float, *, zero_diagonal: bool = True) -> NDArray[np.float64]:
    """Least-squares codes; row j of the result is the code of sample (row) j of X.

    Both variants need H = XᵀX D (columns as samples), because αD = I − H:
    LSR2 is H itself, LSR1 is H_ij / (1 − H_jj).
    """
    X = np.asarray(X, dtype=np.float64)
    n, d = X.shape
    if d < n:
        factor = scipy.linalg.cholesky(X.T @ X + alpha * np.eye(d), lower=True)
        half = scipy.linalg.solve_triangular(factor, X.T, lower=True)
        H = half.T @ half
    else:
        gram = X @ X.T
        H = scipy.linalg.cho_solve(scipy.linalg.cho_factor(gram + alpha * np.eye(n)), gram)
    if not zero_diagonal:
        return np.asarray(H)
    # 1 − H_jj = α D_jj > 0 in exact arithmetic; rounding must not change the sign.
    rest = np.maximum(1 - np.diag(H), np.finfo(np.float64).eps)
    C: NDArray[np.float64] = H / rest[:, None]  # H is symmetric: row j is sample j
    np.fill_diagonal(C, 0.0)
    return C
