r"""η from the data: how sharp the membership must be for k clusters.

At a fixed η, Γ = P_{Ω,η}(C Cᵀ) of stage 1's codes has too few or too many large eigenvalues, and
stage 2 then fixes the mistake. λ_k(Γ) falls as η grows. Bisection finds the η where λ_k has the
wanted value, before stage 2 begins.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from unbend.labels.spectral import Membership
from unbend.threads import threads_for, use_threads

__all__ = ["calibrate_eta", "n_eigenvalues_above"]

_PILOT = 1000  # codes; the spectrum of their Γ is computed once per step of the bisection
_PER_CLUSTER = 6
_LOW, _HIGH = 0.02, 1.0
_STEPS = 8  # to 1 % of η
_FACTOR = 1 / 3  # operations of a factorisation, in units of n³


def calibrate_eta(C: Tensor, k: int, wanted: float, *, seed: int = 0, tol: float = 1e-3) -> float:
    r"""The η at which the k-th eigenvalue of Γ, on a pilot of the codes, is ``wanted``.

    Parameters
    ----------
    C : Tensor of shape (n, d)
        Codes on the unit sphere.
    k : int
        Number of clusters.
    wanted : float
        λ_k, between 0 and 1: the share of a sample's membership that stays within its cluster.
        Where no η between 0.02 and 1 gives it, the nearer bound is returned.

    Examples
    --------
    >>> C = torch.eye(3).repeat(20, 1)  # three orthogonal groups: Γ leaks exp(-1/η) to each other
    >>> eta = calibrate_eta(C, 3, 0.9)
    >>> leak = math.exp(-1 / eta)
    >>> round((1 - leak) / (1 + 2 * leak), 2)
    0.9
    """
    k = min(k, len(C))
    size = min(len(C), max(_PILOT, _PER_CLUSTER * k))
    order = torch.randperm(len(C), generator=torch.Generator().manual_seed(seed))[:size]
    pilot = C[order.to(C.device)].cpu().float()
    low, high = math.log(_LOW), math.log(_HIGH)
    with use_threads(threads_for(_FACTOR * size**3)):
        for _ in range(_STEPS):
            middle = (low + high) / 2
            Gamma = Membership.of_few(pilot, math.exp(middle), False, tol).dense()
            sharp = n_eigenvalues_above(Gamma, wanted) >= k  # λ_k > wanted
            low, high = (middle, high) if sharp else (low, middle)
    return math.exp((low + high) / 2)


def n_eigenvalues_above(A: Tensor, bound: float) -> int:
    """How many eigenvalues of a symmetric matrix are larger than a bound.

    By Sylvester's law of inertia they are the positive eigenvalues of D in A - bound·I = L D Lᵀ.
    The factorisation takes a quarter of the operations of all eigenvalues, and faster ones.

    Examples
    --------
    >>> n_eigenvalues_above(torch.diag(torch.tensor([0.1, 0.5, 0.9])), 0.4)
    2
    """
    shifted = A - bound * torch.eye(len(A), dtype=A.dtype, device=A.device)
    factors, pivots = torch.linalg.ldl_factor(shifted)
    # Bunch and Kaufman's pivoting takes a 2 × 2 block of D, marked by two negative pivots, only
    # where it has one eigenvalue of each sign.
    single = pivots > 0
    return int((factors.diagonal()[single] > 0).sum()) + int((~single).sum()) // 2
