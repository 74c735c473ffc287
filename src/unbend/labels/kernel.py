"""The kernel exp((S − 1)/η) of codes, stored or recomputed block by block."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

__all__ = ["BlockKernel", "DenseKernel", "row_blocks", "similarity_kernel"]

# Entries of one block: 16 MB in float32, large enough for GEMM and small enough for caches.
_BLOCK_ENTRIES = 1 << 22


def similarity_kernel(A: Tensor, B: Tensor, eta: float, absolute: bool = False) -> Tensor:
    """exp((S − 1)/η) with S = A Bᵀ, or S = |A Bᵀ|.

    Codes have unit norm, so S ≤ 1 and every entry lies in (0, 1]: no overflow for any η. The
    Sinkhorn potential absorbs the constant factor exp(−1/η).
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


class BlockKernel:
    """The kernel of codes with themselves, recomputed at every product.

    Memory is O(n·(d + p)) for a product with p columns. Only the blocks on and above the
    diagonal are computed, and each is used twice while it is in the cache.
    """

    def __init__(
        self, C: Tensor, eta: float, absolute: bool = False, block_size: int = 1024
    ) -> None:
        self.C, self.eta, self.absolute, self.block_size = C, eta, absolute, block_size

    @property
    def n(self) -> int:
        """Number of samples."""
        return self.C.shape[0]

    def apply(self, X: Tensor) -> Tensor:
        """K X for X of shape (n, p), exact."""
        out = torch.zeros_like(X)
        for rows, columns in self.upper_blocks():
            block = self.block(rows, columns)
            out[rows].addmm_(block, X[columns])
            if columns.start > rows.start:
                out[columns].addmm_(block.T, X[rows])
        return out

    def upper_blocks(self) -> Iterator[tuple[slice, slice]]:
        """Rows and columns of the blocks on and above the diagonal."""
        starts = range(0, self.n, self.block_size)
        parts = [slice(start, min(start + self.block_size, self.n)) for start in starts]
        for i, rows in enumerate(parts):
            for columns in parts[i:]:
                yield rows, columns

    def block(self, rows: slice, columns: slice) -> Tensor:
        """One block of K."""
        return similarity_kernel(self.C[rows], self.C[columns], self.eta, self.absolute)


class DenseKernel(BlockKernel):
    """A kernel with all blocks stored: 2 n² bytes in float32, fastest if they fit in memory."""

    def __init__(
        self, C: Tensor, eta: float, absolute: bool = False, block_size: int = 1024
    ) -> None:
        super().__init__(C, eta, absolute, block_size)
        compute = super().block
        self._stored = {(r.start, c.start): compute(r, c) for r, c in self.upper_blocks()}

    def block(self, rows: slice, columns: slice) -> Tensor:
        """One block of K."""
        return self._stored[rows.start, columns.start]
