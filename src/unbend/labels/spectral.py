"""Exact spectral embedding of the membership, stored or matrix-free."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from unbend.functional.spectrum import eigh
from unbend.labels.eigen import Eigenpairs, leading_eigenpairs
from unbend.labels.kernel import BlockKernel, DenseKernel, row_blocks, similarity_kernel
from unbend.labels.scaling import SinkhornScaling, flat_start, symmetric_scaling
from unbend.progress import Progress, silent

__all__ = ["Membership", "spectral_embedding"]

# Up to this size a full eigendecomposition is faster than iterating. Larger problems start from
# the solution for a random sample of this size.
_FULL = 800


@dataclass(frozen=True)
class Membership:
    """Γ = Diag(v) K Diag(v), applied without storing it."""

    kernel: BlockKernel
    scaling: SinkhornScaling

    @classmethod
    def of(
        cls, kernel: BlockKernel, start: Tensor, tol: float, progress: Progress = silent
    ) -> Membership:
        """Project a kernel onto the doubly stochastic matrices, starting from v = start."""
        return cls(kernel, symmetric_scaling(kernel.apply, start, tol=tol, progress=progress))

    @classmethod
    def of_few(cls, C: Tensor, eta: float, absolute: bool, tol: float) -> Membership:
        """The membership of few codes, with a stored kernel and a flat start."""
        kernel = DenseKernel(C, eta, absolute)
        return cls.of(kernel, flat_start(kernel.apply, C, kernel.n), tol)

    def apply(self, X: Tensor) -> Tensor:
        """Γ X."""
        v = self.scaling.v[:, None]
        return v * self.kernel.apply(v * X)

    def dense(self) -> Tensor:
        """Γ itself, symmetric to the last bit."""
        v = self.scaling.v
        Gamma = v.new_empty(len(v), len(v))
        for rows, columns in self.kernel.upper_blocks():
            block = v[rows, None] * (self.kernel.block(rows, columns) * v[columns])
            Gamma[columns, rows] = block.T
            Gamma[rows, columns] = block
        return (Gamma + Gamma.T) / 2

    def spectrum(self, p: int) -> Eigenpairs:
        """The p leading eigenpairs by a full decomposition."""
        values, vectors = eigh(self.dense())
        return Eigenpairs(values[-p:].flip(0), vectors[:, -p:].flip(1), 0.0)


def spectral_embedding(
    C: Tensor,
    kernel: BlockKernel,
    k: int,
    *,
    eta: float,
    absolute: bool,
    tol: float,
    seed: int,
    progress: Progress = silent,
) -> tuple[Membership, Eigenpairs]:
    """The membership of all codes and its k + 1 leading eigenpairs, k of them to full tolerance.

    Parameters
    ----------
    C : Tensor of shape (n, d)
        Codes.
    kernel : BlockKernel
        Their kernel, stored or recomputed.
    k : int
        Number of clusters. The eigenpair after k is used only for the gap.
    """
    p = min(k + 1, kernel.n)
    width = p + max(4, p // 4)  # spare columns let the wanted ones converge faster
    if kernel.n <= max(_FULL, 4 * width):
        membership = Membership.of_few(C, eta, absolute, tol)
        return membership, membership.spectrum(p)
    v, block = _start(C, width, eta, absolute, tol, seed)
    membership = Membership.of(kernel, v, tol, progress)
    pairs = leading_eigenpairs(membership.apply, block, p, n_exact=k, progress=progress)
    return membership, pairs


def _start(
    C: Tensor, width: int, eta: float, absolute: bool, tol: float, seed: int
) -> tuple[Tensor, Tensor]:
    """Initial v and eigenvectors, extended from a random sample of the codes.

    One product with an (n, sample) kernel replaces several with the (n, n) kernel.
    """
    n, generator = C.shape[0], torch.Generator().manual_seed(seed)
    size = max(_FULL, 4 * width)
    sample = C[torch.randperm(n, generator=generator)[:size].to(C.device)]
    few = Membership.of_few(sample, eta, absolute, tol)
    # The sample represents all n codes, so its v is too large by the root of n / size.
    v_few = few.scaling.v[:, None] * (size / n) ** 0.5
    right = torch.cat([v_few * (n / size), few.scaling.v[:, None] * few.spectrum(width).vectors], 1)
    product = C.new_empty(n, width + 1)
    for rows in row_blocks(n, size):
        product[rows] = similarity_kernel(C[rows], sample, eta, absolute) @ right
    v = product[:, 0].reciprocal()
    return v, v[:, None] * product[:, 1:]
