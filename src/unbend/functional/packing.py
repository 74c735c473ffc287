"""Symmetric matrices stored once: the lower triangle, cut into blocks.

A symmetric d×d matrix is cut in two, recursively::

        first  second
      ┌───────┬───────┐
      │ tree  │       │        the two diagonal blocks are cut again, down to leaves, which keep
      ├───────┼───────┤        the entries of their own lower triangle; the cross block
      │ cross │ tree  │        (second, first) is kept dense.
      └───────┴───────┘

The blocks lie one after the other in a vector of exactly d(d+1)/2 numbers. Compared with a list
of single entries, a cross block is a strided view that matrix products read without a copy, and
only the small leaves are gathered.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

__all__ = [
    "Node",
    "add_identity_",
    "add_quadratic_gradient_",
    "layout",
    "off_diagonals_doubled",
    "pack_outer",
    "triangle_of",
]

# Gathering entries is slow, and so are tiny products; leaves of 16 balance the two.
LEAF = 16


@dataclass(frozen=True)
class Node:
    """The diagonal block of rows ``lo:hi``, whose numbers start at ``offset`` of the vector.

    A leaf has no children. Otherwise ``first`` covers ``lo:mid``, ``second`` covers ``mid:hi``,
    and the cross block of shape (hi - mid, mid - lo) starts at ``offset``.
    """

    lo: int
    hi: int
    offset: int
    first: Node | None = None
    second: Node | None = None

    @property
    def size(self) -> int:
        """Number of entries of this block and of everything below it."""
        m = self.hi - self.lo
        return m * (m + 1) // 2

    def leaf(self, packed: Tensor) -> Tensor:
        """View the triangle of this leaf in ``packed`` (b, p)."""
        return packed[:, self.offset : self.offset + self.size]

    def leaf_matrices(self, packed: Tensor) -> Tensor:
        """Copy this leaf of ``packed`` (b, p) into symmetric matrices (b, m, m)."""
        m = self.hi - self.lo
        places = _triangle(m, packed.device).place
        return self.leaf(packed).index_select(1, places).view(-1, m, m)

    def cross(self, packed: Tensor) -> Tensor:
        """View the cross block of ``packed`` (b, p) as matrices (b, hi - mid, mid - lo)."""
        rows = self.hi - self.mid
        block = packed[:, self.offset : self.offset + rows * (self.mid - self.lo)]
        return block.view(-1, rows, self.mid - self.lo)

    @property
    def mid(self) -> int:
        """The row where a node with children is cut."""
        return self.hi if self.second is None else self.second.lo


def triangle_of(matrices: Tensor) -> Tensor:
    """Gather the lower triangles of symmetric ``matrices`` (b, m, m), as leaves keep them."""
    m = matrices.shape[-1]
    return matrices.reshape(-1, m * m).index_select(1, _triangle(m, matrices.device).flat)


def off_diagonals_doubled(matrices: Tensor) -> Tensor:
    """Gather lower triangles with each entry below the diagonal standing for its mirror too."""
    m = matrices.shape[-1]
    diagonal = _triangle(m, matrices.device).diagonal
    triangles = triangle_of(matrices).mul_(2)
    triangles[:, diagonal] *= 0.5
    return triangles


@dataclass(frozen=True)
class _Triangle:
    """Index tables of the lower triangle of an m×m matrix, in row order."""

    row: Tensor  # row and column of every entry
    column: Tensor
    flat: Tensor  # its place in the flattened matrix
    place: Tensor  # for every entry of the flattened matrix, its place in the triangle
    diagonal: Tensor  # places of the diagonal entries


@lru_cache(maxsize=256)
def _triangle(m: int, device: torch.device) -> _Triangle:
    row, column = torch.tril_indices(m, m, device=device)
    i = torch.arange(m, device=device)
    high, low = torch.maximum(i[:, None], i[None, :]), torch.minimum(i[:, None], i[None, :])
    place = (high * (high + 1) // 2 + low).flatten()
    return _Triangle(row, column, row * m + column, place, i * (i + 3) // 2)


@lru_cache(maxsize=64)
def layout(d: int) -> Node:
    """Return the tree of blocks for d×d matrices; ``layout(d).size`` is the vector's length.

    >>> layout(128).size == 128 * 129 // 2
    True
    """
    return _grow(0, d, 0)


def _grow(lo: int, hi: int, offset: int) -> Node:
    m = hi - lo
    if m <= LEAF:
        return Node(lo, hi, offset)
    # Cut at a multiple of LEAF so that all leaves but the last are full.
    mid = lo + LEAF * -(-(m // 2) // LEAF)
    first = _grow(lo, mid, offset + (hi - mid) * (mid - lo))
    second = _grow(mid, hi, first.offset + first.size)
    return Node(lo, hi, offset, first, second)


def pack_outer(Z: Tensor, out: Tensor) -> Tensor:
    """Write the packed z_i z_iᵀ of every row of ``Z`` (t, d) into ``out`` (t, p)."""

    def write(node: Node) -> None:
        z = Z[:, node.lo : node.hi]
        if node.first is None or node.second is None:
            index = _triangle(z.shape[1], z.device)
            left, right = z.index_select(1, index.row), z.index_select(1, index.column)
            torch.mul(left, right, out=node.leaf(out))
            return
        above, below = Z[:, node.lo : node.mid], Z[:, node.mid : node.hi]
        torch.mul(below.unsqueeze(2), above.unsqueeze(1), out=node.cross(out))
        write(node.first)
        write(node.second)

    write(layout(Z.shape[1]))
    return out


def add_identity_(packed: Tensor, d: int) -> Tensor:
    """Add the identity to every packed d×d matrix of ``packed`` (b, p)."""

    def add(node: Node) -> None:
        if node.first is None or node.second is None:
            node.leaf(packed)[:, _triangle(node.hi - node.lo, packed.device).diagonal] += 1
            return
        add(node.first)
        add(node.second)

    add(layout(d))
    return packed


def add_quadratic_gradient_(gradient: Tensor, B: Tensor, Z: Tensor) -> Tensor:
    """Add to row i of ``gradient`` the gradient 2 B_i z_i of the form z_iᵀ B_i z_i.

    ``B`` (t, p) is packed with its off-diagonal numbers already doubled: against a packed z zᵀ
    it gives the quadratic form as a plain inner product, and here each of them acts twice.
    """

    def add(node: Node) -> None:
        # With the vector on the left, a batch of products is several times faster than with the
        # vector on the right.
        z = Z[:, node.lo : node.hi].unsqueeze(1)
        if node.first is None or node.second is None:
            twice = node.leaf_matrices(B)
            twice.diagonal(dim1=1, dim2=2).mul_(2)
            gradient[:, node.lo : node.hi] += (z @ twice).squeeze(1)
            return
        above, below = z[..., : node.mid - node.lo], z[..., node.mid - node.lo :]
        cross = node.cross(B)
        gradient[:, node.mid : node.hi] += (above @ cross.mT).squeeze(1)
        gradient[:, node.lo : node.mid] += (below @ cross).squeeze(1)
        add(node.first)
        add(node.second)

    add(layout(Z.shape[1]))
    return gradient
