"""The losses of self-supervised learning, one number at a time in float64."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

__all__ = [
    "byol_oracle",
    "codes_oracle",
    "info_nce_oracle",
    "nt_xent_oracle",
    "swav_oracle",
    "vicreg_oracle",
]


def _cosine(a: np.ndarray, b: np.ndarray) -> float:
    dot = sum(float(x) * float(y) for x, y in zip(a, b, strict=True))
    return dot / math.sqrt(sum(float(x) ** 2 for x in a) * sum(float(y) ** 2 for y in b))


def nt_xent_oracle(Z: ArrayLike, Z_other: ArrayLike, temperature: float) -> float:
    """SimCLR, Eq. (1), averaged over all 2n ordered positive pairs."""
    z = [*np.asarray(Z, np.float64), *np.asarray(Z_other, np.float64)]
    n, total = len(z) // 2, 0.0
    for i in range(2 * n):
        j = i + n if i < n else i - n
        below = sum(math.exp(_cosine(z[i], z[k]) / temperature) for k in range(2 * n) if k != i)
        total -= math.log(math.exp(_cosine(z[i], z[j]) / temperature) / below)
    return total / (2 * n)


def info_nce_oracle(
    query: ArrayLike, key: ArrayLike, queue: ArrayLike, temperature: float
) -> float:
    """MoCo, Eq. (1)."""
    total, query = 0.0, np.asarray(query, np.float64)
    for q, k in zip(query, np.asarray(key, np.float64), strict=True):
        right = math.exp(_cosine(q, k) / temperature)
        wrong = sum(math.exp(_cosine(q, w) / temperature) for w in np.asarray(queue, np.float64))
        total -= math.log(right / (right + wrong))
    return total / len(query)


def vicreg_oracle(Z: ArrayLike, Z_other: ArrayLike) -> tuple[float, float, float]:
    """VICReg's s, v and c: per entry, mean over views, sum over views."""
    views = np.asarray(Z, np.float64), np.asarray(Z_other, np.float64)
    n, d = views[0].shape
    s = sum((views[0][i, j] - views[1][i, j]) ** 2 for i in range(n) for j in range(d)) / (n * d)
    v = c = 0.0
    for view in views:
        mean = [sum(view[i, j] for i in range(n)) / n for j in range(d)]
        for j in range(d):
            for k in range(d):
                cov = sum((view[i, j] - mean[j]) * (view[i, k] - mean[k]) for i in range(n))
                cov /= n - 1
                if j == k:
                    v += max(0.0, 1 - math.sqrt(cov + 1e-4)) / d / 2
                else:
                    c += cov**2 / d
    return s, v, c


def byol_oracle(prediction: ArrayLike, target: ArrayLike) -> float:
    """BYOL, Eq. (2): squared distance of the normalised vectors, averaged."""
    total, prediction = 0.0, np.asarray(prediction, np.float64)
    for p, t in zip(prediction, np.asarray(target, np.float64), strict=True):
        p, t = p / math.sqrt((p**2).sum()), t / math.sqrt((t**2).sum())
        total += sum((x - y) ** 2 for x, y in zip(p, t, strict=True))
    return total / len(prediction)


def codes_oracle(scores: ArrayLike, eps: float, n_iter: int) -> np.ndarray:
    """Sinkhorn-Knopp as SwAV's Algorithm 1 has it: prototypes × samples, sums 1/k and 1/n."""
    Q = np.exp(np.asarray(scores, np.float64) / eps).T
    Q /= Q.sum()
    k, n = Q.shape
    for _ in range(n_iter):
        for j in range(k):
            Q[j] /= Q[j].sum() * k
        for i in range(n):
            Q[:, i] /= Q[:, i].sum() * n
    return (Q * n).T


def swav_oracle(
    scores: list[np.ndarray], n_full: int, temperature: float, eps: float, n_iter: int
) -> float:
    """Mean over full views of the mean cross entropy of their codes with every other view."""
    total = 0.0
    for a in range(n_full):
        codes, part = codes_oracle(scores[a], eps, n_iter), 0.0
        for b, other in enumerate(scores):
            if a == b:
                continue
            for q, s in zip(codes, np.asarray(other, np.float64), strict=True):
                below = sum(math.exp(x / temperature) for x in s)
                part -= sum(
                    w * math.log(math.exp(x / temperature) / below)
                    for w, x in zip(q, s, strict=True)
                ) / len(codes)
        total += part / (len(scores) - 1)
    return total / n_full
