"""Optimiser, objective and matching in float64 loops, and a watch over the global random state."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import permutations

import numpy as np
import torch
from numpy.typing import ArrayLike
from tests.oracles.rates import coding_rate_oracle

__all__ = ["accuracy_oracle", "global_random_state_kept", "lars_oracle", "tcr_oracle"]


def lars_oracle(
    w: ArrayLike,
    gradients: Sequence[ArrayLike],
    rates: Sequence[float],
    *,
    momentum: float,
    weight_decay: float,
    trust: float,
    clip: bool,
) -> np.ndarray:
    """One tensor after ``len(gradients)`` steps of You et al.'s LARS, one formula per line."""
    w = np.asarray(w, dtype=np.float64)
    m = np.zeros_like(w)
    for gradient, lr in zip(gradients, rates, strict=True):
        g = np.asarray(gradient, dtype=np.float64)
        q = 1.0
        if w.ndim > 1:
            g = g + weight_decay * w
            size_w, size_g = np.sqrt((w**2).sum()), np.sqrt((g**2).sum())
            if size_w > 0 and size_g > 0:
                q = trust * size_w / size_g
            if clip:
                q = min(q / lr, 1.0)
        m = momentum * m + q * g
        w = w - lr * m
    return w


def tcr_oracle(views: ArrayLike, eps_sq: float, invariance: float) -> tuple[float, float, float]:
    """Objective, R of the mean view, and mean |cosine| over samples and pairs of views."""
    views = np.asarray(views, dtype=np.float64)
    n_views, n, d = views.shape
    mean = np.zeros((n, d))
    for view in views:
        mean += view / n_views
    cosines = []
    for i in range(n):
        for a in range(n_views):
            for b in range(a + 1, n_views):
                cosines.append(abs(sum(views[a, i, k] * views[b, i, k] for k in range(d))))
    R, cosine = coding_rate_oracle(mean, eps_sq), float(np.mean(cosines))
    return R + invariance * cosine, R, cosine


def accuracy_oracle(y_true: Sequence[int], y_pred: Sequence[int]) -> float:
    """Best share of right samples over every injection of the smaller label set into the larger."""
    classes, clusters = sorted(set(y_true)), sorted(set(y_pred))
    few, many, swap = clusters, classes, False
    if len(few) > len(many):
        few, many, swap = classes, clusters, True
    best = 0
    for image in permutations(many, len(few)):
        match = set(zip(few, image, strict=True))
        pairs = zip(y_pred, y_true, strict=True)
        best = max(best, sum(((t, p) if swap else (p, t)) in match for p, t in pairs))
    return best / len(y_true)


@contextmanager
def global_random_state_kept() -> Iterator[None]:
    """Fail if the block draws from, or seeds, a global random state."""
    before = torch.get_rng_state(), np.random.get_state(), random.getstate()  # noqa: NPY002
    yield
    assert torch.equal(before[0], torch.get_rng_state())
    after = np.random.get_state()  # noqa: NPY002
    assert all(np.array_equal(a, b) for a, b in zip(before[1], after, strict=True))
    assert before[2] == random.getstate()
