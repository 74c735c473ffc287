"""Exact spectral clustering of the membership, stored or matrix-free."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from unbend.labels.eigen import Eigenpairs, leading_eigenpairs
from unbend.labels.kernel import Kernel
from unbend.labels.scaling import Scaling, flat_start, symmetric_scaling
from unbend.progress import Progress, silent

__all__ = ["Membership", "membership_spectrum"]

# Below this a full eigendecomposition is faster than iterating.
_FULL_EIGH = 600


@dataclass(frozen=True)
class Membership:
    """Γ = Diag(v) K Diag(v), as products only."""

    kernel: Kernel
    scaling: Scaling

    @classmethod
    def of(cls, kernel: Kernel, tol: float, progress: Progress = silent) -> Membership:
        """Project a kernel onto the doubly stochastic matrices."""
        start = flat_start(kernel.apply, kernel.like(), kernel.n)
        return cls(kernel, symmetric_scaling(kernel.apply, start, tol=tol, progress=progress))

    def apply(self, X: Tensor) -> Tensor:
        """Γ X."""
        v = self.scaling.v[:, None]
        return v * self.kernel.apply(v * X)


def membership_spectrum(
    membership: Membership, p: int, seed: int, progress: Progress = silent
) -> Eigenpairs:
    """The p leading eigenpairs of Γ."""
    n, like = membership.kernel.n, membership.kernel.like()
    p = min(p, n)
    if n <= max(_FULL_EIGH, 4 * p):
        values, vectors = torch.linalg.eigh(membership.apply(torch.eye(n).to(like)))
        return Eigenpairs(values[-p:].flip(0), vectors[:, -p:].flip(1), 0.0)
    generator = torch.Generator().manual_seed(seed)
    start = torch.randn(n, p + max(4, p // 4), generator=generator).to(like)
    start[:, 0] = 1.0  # the eigenvector of λ = 1 is known
    return leading_eigenpairs(membership.apply, start, p, progress=progress)
