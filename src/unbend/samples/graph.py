"""Spectrum of the graph of nearest neighbours.

The graph is symmetrised: two samples are linked if one is a neighbour of the other. With adjacency
A and degrees D, its normalised adjacency is :math:`D^{-1/2} A D^{-1/2}`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array, diags_array
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import LinearOperator, eigsh
from torch import Tensor

from unbend.functional.spectrum import eigh, eigvalsh

__all__ = ["graph_embedding", "graph_spectrum", "links"]

_DENSE = 600  # up to this many rows, compute all eigenpairs
# ... and where the wanted ones are more than a tenth of the values, or a quarter of the vectors:
# Lanczos iteration for a thousand of 4,000 takes many times as long.
_VALUES, _VECTORS = 10, 4
_TOL = 1e-5

Array = NDArray[np.float64]


def graph_spectrum(neighbors: Tensor, k: int) -> Array:
    """The k largest eigenvalues of the normalised adjacency, in descending order."""
    return _leading(neighbors, k, vectors=False).values


def graph_embedding(neighbors: Tensor, k: int) -> Tensor | None:
    """The k leading eigenvectors (n, k); None if the graph has more than k components.

    Examples
    --------
    >>> pairs = torch.tensor([[1], [0], [3], [2]])  # two components
    >>> U = graph_embedding(pairs, 2)
    >>> (U @ U.T).round(decimals=2).tolist()[0]
    [0.5, 0.5, 0.0, 0.0]
    """
    pairs = _leading(neighbors, k, vectors=True)
    if pairs.n_components > k:
        return None
    return torch.from_numpy(np.ascontiguousarray(pairs.vectors))


class _Pairs(NamedTuple):
    values: Array
    vectors: Array
    n_components: int


def _leading(neighbors: Tensor, k: int, *, vectors: bool) -> _Pairs:
    adjacency, root = _normalized_adjacency(neighbors)
    n = len(root)
    count, component = connected_components(adjacency, directed=False)

    def dense() -> Tensor:
        return torch.from_numpy(adjacency.toarray())

    if not vectors and (n <= _DENSE or _VALUES * k > n):
        return _Pairs(eigvalsh(dense()).flip(0)[:k].numpy(), np.empty((n, 0)), count)
    if n <= _DENSE or _VECTORS * k > n:
        values, U = (found.flip(-1).numpy() for found in eigh(dense()))
        return _Pairs(values[:k], U[:, :k], count)
    # Each component of the graph has the eigenvalue 1, with the eigenvector ``root`` on its own
    # rows. Lanczos iteration sees one copy of an eigenvalue that occurs several times, so these
    # are counted, and their eigenvectors are moved to the other end of the spectrum, -1.
    lengths = np.sqrt(np.bincount(component, root**2))
    own = csr_array((root / lengths[component], (np.arange(n), component)), shape=(n, count))
    if count >= k:
        return _Pairs(np.ones(k), own[:, :k].toarray(), count)
    moved = LinearOperator(
        (n, n), matvec=lambda v: adjacency @ v - 2 * (own @ (own.T @ v)), dtype=np.float64
    )
    start = np.random.default_rng(0).standard_normal(n)
    find: Any = eigsh  # its stubs know the two kinds of results only for literal flags
    found = find(moved, k=k - count, which="LA", tol=_TOL, v0=start, return_eigenvectors=vectors)
    values, rest = found if vectors else (found, np.empty((n, 0)))
    order = np.argsort(values)[::-1]
    rest = rest[:, order] if vectors else rest
    return _Pairs(
        np.concatenate([np.ones(count), values[order]]),
        np.concatenate([own.toarray(), rest], axis=1) if vectors else rest,
        count,
    )


def _normalized_adjacency(neighbors: Tensor) -> tuple[csr_array, Array]:
    """The normalised adjacency, and the square roots of the degrees."""
    edges = links(neighbors)
    root = np.sqrt(np.asarray(edges.sum(axis=1)).ravel())
    return csr_array(diags_array(1 / root) @ edges @ diags_array(1 / root)), root


def links(neighbors: Tensor) -> csr_array:
    """The symmetric adjacency: 1 where one of two samples is a neighbour of the other.

    Neighbours may be listed more than once.
    """
    n, m = neighbors.shape
    rows = np.repeat(np.arange(n), m)
    edges = csr_array((np.ones(n * m), (rows, neighbors.cpu().numpy().ravel())), shape=(n, n))
    edges.data[:] = 1  # the constructor has added up what is listed twice
    return csr_array(edges.maximum(edges.T))
