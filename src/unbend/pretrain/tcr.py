"""Total coding rate, the paper's self-supervised objective (Eq. 5)."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from unbend.functional import coding_rate

__all__ = ["TCR", "tcr_objective"]


class TCR(NamedTuple):
    """The objective, to be maximised, and its two parts."""

    value: Tensor
    R: Tensor
    cosine: Tensor


def tcr_objective(Z_views: Tensor, eps_sq: float = 0.2, invariance: float = 60.0) -> TCR:
    """R of the mean of the views plus λ times their mean |cosine|.

    The paper's Eq. (5) for two views::

        max  R((Z + Z')/2; ε) + λ Σ_i |z_iᵀ z'_i|

    The first term spreads different samples over many directions, the second keeps the views of
    one sample together. With more than two views the cosine is averaged over all pairs.

    Parameters
    ----------
    Z_views : Tensor of shape (A, n, d)
        Features of A ≥ 2 views on the unit sphere.
    eps_sq : float, default=0.2
        ε².
    invariance : float, default=60
        λ·n: the weight on the *mean* of the cosines, so that it does not depend on the batch.
        The paper does not print its λ. NMCE, where this objective comes from, has 30 beside
        R/2 (Li et al., 2022), hence 60 beside R.
    """
    if Z_views.ndim != 3 or len(Z_views) < 2:
        raise ValueError(
            f"`Z_views` of tcr_objective must be (A, n, d) with A >= 2, got {tuple(Z_views.shape)}"
        )
    R = coding_rate(Z_views.mean(0), eps_sq)
    pairs = [(a, b) for b in range(len(Z_views)) for a in range(b)]
    cosines = [(Z_views[a] * Z_views[b]).sum(1).abs().mean() for a, b in pairs]
    cosine = sum(cosines[1:], start=cosines[0]) / len(cosines)
    return TCR(R + invariance * cosine, R, cosine)
