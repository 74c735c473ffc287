"""Methods ranked over problems, after Demšar (2006).

Rows of a score matrix are problems and columns are methods; higher is better. NaN marks a method
that did not finish; such methods share the last ranks of that problem.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import friedmanchisquare, rankdata, studentized_range

__all__ = ["Ranking", "critical_difference", "groups", "rank_methods"]


@dataclass(frozen=True)
class Ranking:
    """Ranks on each problem (1 is best), their means, first places, and significance."""

    methods: list[str]
    ranks: NDArray[np.float64]
    mean: NDArray[np.float64]
    wins: NDArray[np.int64]
    critical_difference: float
    p_value: float


def rank_methods(methods: list[str], scores: ArrayLike) -> Ranking:
    """Rank the columns of ``scores`` on each row; methods that tie share the mean of their ranks.

    >>> rank_methods(["a", "b", "c"], [[0.9, 0.8, np.nan], [0.7, 0.7, 0.1]]).mean.tolist()
    [1.25, 1.75, 3.0]
    """
    table = np.asarray(scores, dtype=np.float64)
    filled = np.where(np.isnan(table), -np.inf, table)
    ranks = rankdata(-filled, axis=1)
    finished = ~np.isnan(table)
    wins = ((ranks == ranks.min(axis=1, keepdims=True)) & finished).sum(axis=0)
    return Ranking(
        methods,
        ranks,
        ranks.mean(axis=0),
        wins,
        critical_difference(len(methods), len(table)),
        _friedman(ranks),
    )


def critical_difference(n_methods: int, n_problems: int, alpha: float = 0.05) -> float:
    """Smallest difference between two mean ranks that Nemenyi's test finds significant.

    CD = q sqrt(k (k + 1) / (6 N)) for k methods on N problems, with q the quantile of the
    studentized range divided by sqrt(2).

    >>> round(critical_difference(4, 14), 2)
    1.25
    """
    if n_methods < 2:
        return 0.0
    q = studentized_range.ppf(1 - alpha, n_methods, np.inf) / np.sqrt(2)
    return float(q * np.sqrt(n_methods * (n_methods + 1) / (6 * n_problems)))


def groups(mean_ranks: ArrayLike, difference: float) -> list[tuple[int, int]]:
    """Longest runs of methods whose mean ranks differ by no more than ``difference``.

    Returns first and last position, both counted in the order of the ranks.

    >>> groups([1.0, 2.5, 3.0, 6.0], 1.6)
    [(0, 1), (1, 2)]
    """
    ranks = np.sort(np.asarray(mean_ranks))
    found: list[tuple[int, int]] = []
    for first in range(len(ranks)):
        last = int(np.searchsorted(ranks, ranks[first] + difference, side="right")) - 1
        if last > first and (not found or last > found[-1][1]):
            found.append((first, last))
    return found


def _friedman(ranks: NDArray[np.float64]) -> float:
    """p-value of the Friedman test that all methods perform equally; NaN for too few."""
    if ranks.shape[0] < 2 or ranks.shape[1] < 3 or np.ptp(ranks) == 0:
        return float("nan")
    return float(friedmanchisquare(*ranks.T).pvalue)
