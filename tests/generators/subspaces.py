"""Noisy unions of random linear subspaces with known labels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["UnionOfSubspaces", "cluster_sizes", "union_of_subspaces"]

_ROWS_AT_ONCE = 65536


@dataclass(frozen=True)
class UnionOfSubspaces:
    """Features Z and codes C (n, d) on the sphere, labels y (n,), bases (k, dim, d)."""

    Z: NDArray[np.float32]
    C: NDArray[np.float32]
    y: NDArray[np.int64]
    bases: NDArray[np.float32]


def cluster_sizes(n: int, k: int, imbalance: float) -> NDArray[np.int64]:
    """k sizes that sum to n, in geometric steps, the largest ``imbalance`` times the smallest."""
    weights = np.geomspace(imbalance, 1.0, k)
    sizes = np.maximum(1, np.floor(n * weights / weights.sum())).astype(np.int64)
    sizes[0] += n - sizes.sum()
    return sizes


def union_of_subspaces(
    n: int,
    k: int,
    *,
    d: int = 128,
    dim: int = 5,
    noise: float = 0.2,
    spread: float = 0.5,
    imbalance: float = 1.0,
    signed: bool = False,
    seed: int = 0,
) -> UnionOfSubspaces:
    """Sample k random subspaces of dimension ``dim`` of R^d, rows in random order.

    Features Z are what the paper wants of them: isotropic within the subspace of their cluster,
    both signs, plus ambient noise. Codes C are what the cluster head gives after training. The
    membership exp(cᵀc'/η) is large only for codes that point the same way, so a trained head
    gathers each cluster in a cone: an axis in the subspace, plus ``spread`` times a Gaussian in
    the subspace, plus ambient noise. With ``signed`` half of the codes are negated, which only
    the similarity |cᵀc'| can undo.

    Parameters
    ----------
    noise, spread : float
        Expected lengths of the ambient noise and of the spread within the subspace, relative
        to an axis of length one.
    """
    rng = np.random.default_rng(seed)
    bases = np.linalg.qr(rng.standard_normal((k, d, dim)))[0].swapaxes(1, 2).astype(np.float32)
    y = rng.permutation(np.repeat(np.arange(k), cluster_sizes(n, k, imbalance)))
    Z, C = np.empty((n, d), np.float32), np.empty((n, d), np.float32)
    axis = np.eye(1, dim, dtype=np.float32)
    for start in range(0, n, _ROWS_AT_ONCE):
        rows = slice(start, start + _ROWS_AT_ONCE)
        B = bases[y[rows]]
        Z[rows] = _unit_sum(_gaussian(rng, len(B), dim), B, noise * _gaussian(rng, len(B), d))
        coefficients = axis + spread * _gaussian(rng, len(B), dim)
        C[rows] = _unit_sum(coefficients, B, noise * _gaussian(rng, len(B), d))
        if signed:
            C[rows] *= rng.choice(np.array([-1, 1], np.float32), size=(len(B), 1))
    return UnionOfSubspaces(Z, C, y, bases)


def _gaussian(rng: np.random.Generator, m: int, width: int) -> NDArray[np.float32]:
    """Rows of expected squared length one."""
    return rng.standard_normal((m, width), dtype=np.float32) / np.float32(np.sqrt(width))


def _unit_sum(
    coefficients: NDArray[np.float32], B: NDArray[np.float32], noise: NDArray[np.float32]
) -> NDArray[np.float32]:
    """Points of the subspaces with bases B, disturbed and put on the sphere."""
    x = np.einsum("ir,ird->id", coefficients, B) + noise
    return x / np.linalg.norm(x, axis=1, keepdims=True)
