"""The kernel exp((S − 1)/η) of codes, stored or recomputed block by block."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import torch
from torch import Tensor

__all__ = ["BlockKernel", "DenseKernel", "Kernel", "row_blocks", "similarity_kernel"]

# Entries of one block: 16 MB in float32, large enough for GEMM and small enough for caches.
_BLOCK_ENTRIES = 1 << 22


class Kernel(Protocol):
    """A symmetric positive kernel that is only ever multiplied with tall matrices."""

    @property
    def n(self) -> int:
        """Number of samples."""

    def apply(self, X: Tensor) -> Tensor:
        """K X for X of shape (n, p)."""

    def like(self) -> Tensor:
        """An empty tensor with the dtype and device of the kernel."""


def similarity_kernel(A: Tensor, B: Tensor, eta: float, absolute: bool = False) -> Tensor:
    """exp((S − 1)/η) with S = A Bᵀ, or S = |A Bᵀ|.

    Codes have unit norm, so S ≤ 1 and every entry lies in (0, 1]: nothing can overflow, for
    any η. The constant factor exp(−1/η) is absorbed by the Sinkhorn potential.
    """
    S = A @ B.T
    if absolute:
        S.abs_()
    return S.sub_(1.0).div_(eta).exp_()


def row_blocks(n: int, width: int, entries: int = _BLOCK_ENTRIES) -> Iterator[slice]:
    """Cut n rows into slices of about ``entries / width`` rows."""
    step = max(1, entries // max(1, width))
    for start in range(0, n, step):
        yield slice(start, min(start + step, n))


class DenseKernel:
    """The kernel as one stored (n, n) matrix: fastest while it fits."""

    def __init__(self, C: Tensor, eta: float, absolute: bool = False) -> None:
        self.K = similarity_kernel(C, C, eta, absolute)

    @property
    def n(self) -> int:
        """Number of samples."""
        return self.K.shape[0]

    def apply(self, X: Tensor) -> Tensor:
        """K X."""
        return self.K @ X

    def like(self) -> Tensor:
        """An empty tensor with the dtype and device of the kernel."""
        return self.K.new_empty(0)


class BlockKernel:
    """The kernel recomputed from the codes at every product: O(n·(d + p)) memory.

    Only the blocks on and above the diagonal are computed, each is used twice.
    """

    def __init__(
        self, C: Tensor, eta: float, absolute: bool = False, block_size: int = 2048
    ) -> None:
        self.C, self.eta, self.absolute, self.block_size = C, eta, absolute, block_size

    @property
    def n(self) -> int:
        """Number of samples."""
        return self.C.shape[0]

    def apply(self, X: Tensor) -> Tensor:
        """K X, exact."""
        out = torch.zeros_like(X)
        for i in range(0, self.n, self.block_size):
            rows = slice(i, min(i + self.block_size, self.n))
            for j in range(i, self.n, self.block_size):
                columns = slice(j, min(j + self.block_size, self.n))
                block = similarity_kernel(self.C[rows], self.C[columns], self.eta, self.absolute)
                out[rows] += block @ X[columns]
                if j > i:
                    out[columns] += block.T @ X[rows]
        return out

    def like(self) -> Tensor:
        """An empty tensor with the dtype and device of the kernel."""
        return self.C.new_empty(0)
