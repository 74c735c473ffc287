"""A 2-D map of the features: t-SNE of landmarks; other samples are placed near the closest ones.

Clusters are subspaces, and z and −z lie on one line, so similarity is cos². Repulsive forces are
summed on a grid by FFT: time grows with n, not with n².
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.fft
from numpy.typing import NDArray

__all__ = ["lay_out", "sample_by_cluster"]

Array = NDArray[np.float64]

_N_LANDMARKS, _N_NEIGHBORS, _GRID = 3000, 20, 128
_FEW = 400  # up to this many points, forces are summed over all pairs
_EARLY, _STEPS, _EXAGGERATION = 80, 300, 12.0


def sample_by_cluster(
    labels: NDArray[np.int64], size: int, *, seed: int = 0, least: int = 5
) -> NDArray[np.int64]:
    """Indices of ``size`` samples drawn at random, in ascending order.

    Every cluster contributes at least ``least`` members, as far as ``size`` allows.

    >>> sample_by_cluster(np.array([0] * 90 + [1] * 10), 10, least=2).size
    10
    """
    n = len(labels)
    if size >= n:
        return np.arange(n)
    order = np.random.default_rng(seed).permutation(n)
    _, groups = np.unique(labels[order], return_inverse=True)
    by_group = np.argsort(groups, kind="stable")
    starts = np.searchsorted(groups[by_group], np.arange(groups.max() + 1))
    rank = np.empty(n, dtype=np.int64)
    rank[by_group] = np.arange(n) - starts[groups[by_group]]
    guaranteed = rank < min(least, size // (int(groups.max()) + 1))
    first = np.argsort(~guaranteed, kind="stable")[:size]
    return np.sort(order[first])


def lay_out(Z: NDArray[np.floating], *, seed: int = 0, n_landmarks: int = _N_LANDMARKS) -> Array:
    """Positions (n, 2) in [−1, 1] of the rows of Z.

    Parameters
    ----------
    Z : ndarray of shape (n, d)
        Features; they are scaled to unit length.
    seed : int
        Decides which samples become landmarks. Everything else is deterministic.
    n_landmarks : int
        t-SNE runs on this many samples; the others go to the weighted mean of the three
        landmarks with the largest cos².
    """
    Z = np.asarray(Z, dtype=np.float32)
    if Z.ndim != 2 or len(Z) == 0:
        raise ValueError(f"`Z` of lay_out must be (n, d) with n > 0, got shape {Z.shape}")
    Z = Z / np.maximum(np.linalg.norm(Z, axis=1, keepdims=True), 1e-12)
    n = len(Z)
    chosen = np.sort(np.random.default_rng(seed).permutation(n)[:n_landmarks])
    positions = np.empty((n, 2))
    positions[chosen] = _tsne(Z[chosen])
    others = np.setdiff1d(np.arange(n), chosen)
    if len(others):
        positions[others] = _beside(Z[others], Z[chosen], positions[chosen])
    positions -= (positions.max(0) + positions.min(0)) / 2
    scaled: Array = positions / max(float(np.abs(positions).max()), 1e-12)
    return scaled


def _beside(Z: NDArray[np.float32], landmarks: NDArray[np.float32], positions: Array) -> Array:
    out = np.empty((len(Z), 2))
    near = min(3, len(landmarks))
    for start in range(0, len(Z), 4096):
        rows = slice(start, start + 4096)
        power = np.square(Z[rows] @ landmarks.T)
        best = np.argpartition(-power, near - 1, axis=1)[:, :near]
        weight = np.take_along_axis(power, best, 1).astype(np.float64) ** 4 + 1e-30
        weight /= weight.sum(1, keepdims=True)
        out[rows] = np.einsum("ij,ijk->ik", weight, positions[best])
    return out


# ---------------------------------------------------------------------- t-SNE


@dataclass(frozen=True)
class _Edges:
    """Pairs of neighbours i, j with affinity p, in both directions."""

    i: NDArray[np.int64]
    j: NDArray[np.int64]
    p: Array


def _tsne(Z: NDArray[np.float32]) -> Array:
    n = len(Z)
    if n < 4:
        angle = 2 * np.pi * np.arange(n) / max(n, 1)
        return np.stack([np.cos(angle), np.sin(angle)], 1)
    edges, Y = _neighbours(Z), _start(Z)
    velocity, gains = np.zeros_like(Y), np.ones_like(Y)
    rate = n / _EXAGGERATION  # all forces decrease like 1/n
    repulsion = _pairwise if n <= _FEW else _repulsion
    for step in range(_STEPS):
        early = step < _EARLY
        pull = _attraction(Y, edges) * (_EXAGGERATION if early else 1.0)
        gradient = 4 * (pull - repulsion(Y))
        same = np.sign(gradient) == np.sign(velocity)
        gains = np.where(same, gains * 0.8, gains + 0.2).clip(0.01)
        velocity = (0.5 if early else 0.8) * velocity - rate * gains * gradient
        velocity = velocity.clip(-5, 5)
        Y = Y + velocity
        Y -= Y.mean(0)
    return Y


def _start(Z: NDArray[np.float32]) -> Array:
    """The two leading principal components of zzᵀ, which is the same for z and −z.

    cos² is the inner product of two such matrices; a random sketch of their d² entries suffices.
    """
    rng = np.random.default_rng(0)
    sketch = (Z @ rng.standard_normal((Z.shape[1], 64), dtype=np.float32)) ** 2
    centred = (sketch - sketch.mean(0)).astype(np.float64)
    _, vectors = np.linalg.eigh(centred.T @ centred)
    Y = centred @ vectors[:, :-3:-1]
    Y = Y + 1e-6 * rng.standard_normal(Y.shape) * (np.abs(Y).max() + 1)
    scaled: Array = Y * (1e-4 / Y[:, 0].std())
    return scaled


def _neighbours(Z: NDArray[np.float32]) -> _Edges:
    """The symmetric graph of nearest neighbours by cos², with total weight one."""
    n = len(Z)
    k = min(_N_NEIGHBORS, n - 1)
    best = np.empty((n, k), dtype=np.int64)
    for start in range(0, n, 2048):
        power = np.square(Z[start : start + 2048] @ Z.T)
        rows = np.arange(len(power))
        power[rows, start + rows] = -1
        best[start : start + 2048] = np.argpartition(-power, k - 1, axis=1)[:, :k]
    i, j = np.repeat(np.arange(n), k), best.ravel()
    both = np.concatenate([i * n + j, j * n + i])
    keys, count = np.unique(both, return_counts=True)
    return _Edges(keys // n, keys % n, count / (2.0 * n * k))


def _attraction(Y: Array, edges: _Edges) -> Array:
    gap = Y[edges.i] - Y[edges.j]
    weight = edges.p / (1 + np.square(gap).sum(1))
    forces = [np.bincount(edges.i, weight * gap[:, a], len(Y)) for a in (0, 1)]
    return np.stack(forces, 1)


def _pairwise(Y: Array) -> Array:
    """Σ_j q_ij² (y_i − y_j) / Σ q with q = 1/(1 + |y_i − y_j|²)."""
    length = np.square(Y).sum(1)
    q = 1 / (1 + (length[:, None] + length - 2 * Y @ Y.T).clip(0))
    total = max(float(q.sum()) - len(Y), 1e-9)
    q *= q
    forces: Array = (Y * q.sum(1, keepdims=True) - q @ Y) / total
    return forces


def _repulsion(Y: Array) -> Array:
    """As :func:`_pairwise`, but summed on a grid."""
    low = Y.min(0)
    cell = max(float((Y.max(0) - low).max()) / (_GRID - 2), 1e-9)
    place = (Y - low) / cell
    corner = np.minimum(place.astype(np.int64), _GRID - 2)
    part = place - corner
    spots, weights = [], []
    for a in (0, 1):
        for b in (0, 1):
            spots.append((corner[:, 0] + a) * _GRID + corner[:, 1] + b)
            weights.append(np.abs(1 - a - part[:, 0]) * np.abs(1 - b - part[:, 1]))
    local = Y - low
    masses = [_deposit(spots, weights, mass) for mass in (np.ones(len(Y)), *local.T)]
    once, twice = _kernels(cell)
    first = _convolve(masses[0], once)
    sums = [_read(_convolve(mass, twice), spots, weights) for mass in masses]
    total = max(float(_read(first, spots, weights).sum()) - len(Y), 1e-9)
    forces: Array = (local * sums[0][:, None] - np.stack(sums[1:], 1)) / total
    return forces


def _deposit(spots: list[NDArray[np.int64]], weights: list[Array], mass: Array) -> Array:
    grid = sum(np.bincount(s, w * mass, _GRID * _GRID) for s, w in zip(spots, weights, strict=True))
    return np.asarray(grid).reshape(_GRID, _GRID)


def _read(grid: Array, spots: list[NDArray[np.int64]], weights: list[Array]) -> Array:
    flat = grid.ravel()
    return np.asarray(sum(w * flat[s] for s, w in zip(spots, weights, strict=True)))


def _kernels(cell: float) -> tuple[NDArray[np.complex128], NDArray[np.complex128]]:
    steps = scipy.fft.fftfreq(2 * _GRID, 1 / (2 * _GRID)) * cell
    q = 1 / (1 + steps[:, None] ** 2 + steps[None] ** 2)
    return scipy.fft.rfft2(q), scipy.fft.rfft2(q * q)


def _convolve(grid: Array, kernel: NDArray[np.complex128]) -> Array:
    size = (2 * _GRID, 2 * _GRID)
    full = scipy.fft.irfft2(scipy.fft.rfft2(grid, size) * kernel, size)
    return np.asarray(full[:_GRID, :_GRID])
