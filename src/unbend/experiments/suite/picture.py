"""The critical-difference diagram: mean ranks on a line, and which differences are significant."""

from __future__ import annotations

from typing import Any

import numpy as np

from unbend.experiments.pictures import BLUE, GRAY, new_figure
from unbend.experiments.suite.ranking import Ranking, groups

__all__ = ["draw_ranks"]

_STEP = 0.34  # inches between two names
_HEAD = 1.0  # inches for the title, the scale and the length of the critical difference


def draw_ranks(rankings: dict[str, Ranking]) -> Any:
    """A diagram for each score, one above the other, as a matplotlib figure."""
    rows = [-(-len(ranking.methods) // 2) for ranking in rankings.values()]
    bars = [len(groups(r.mean, r.critical_difference)) for r in rankings.values()]
    heights = [_HEAD + _STEP * (row + 0.4 * bar + 1) for row, bar in zip(rows, bars, strict=True)]
    figure = new_figure(9, sum(heights))
    axes = figure.subplots(len(rankings), 1, squeeze=False, height_ratios=heights)[:, 0]
    for (score, ranking), panel in zip(rankings.items(), axes, strict=True):
        _diagram(panel, score, ranking)
    return figure


def _diagram(axes: Any, score: str, ranking: Ranking) -> None:
    n_problems, k = ranking.ranks.shape
    order = np.argsort(ranking.mean, kind="stable")
    bars = groups(ranking.mean, ranking.critical_difference)
    below = 0.4 * len(bars) + 0.6  # the names begin under the bars
    axes.set_xlim(1 - 0.45 * (k - 1), k + 0.45 * (k - 1))
    axes.set_ylim(below + -(-k // 2), -2.4)
    axes.axis("off")
    axes.set_title(
        f"mean rank by {score} on {n_problems} problems: left is better, methods under one bar "
        "are not told apart",
        fontsize=10,
        loc="left",
    )
    axes.plot([1, k], [0, 0], color=GRAY, linewidth=1.2)
    for rank in range(1, k + 1):
        axes.plot([rank, rank], [-0.16, 0], color=GRAY, linewidth=1)
        axes.text(rank, -0.3, str(rank), ha="center", va="bottom", fontsize=8, color=GRAY)
    _length(axes, ranking.critical_difference)
    for level, (first, last) in enumerate(bars):
        ends = ranking.mean[order[[first, last]]] + np.array([-0.06, 0.06])
        axes.plot(
            ends, [0.4 * (level + 1)] * 2, color="black", linewidth=3.5, solid_capstyle="butt"
        )
    for place, method in enumerate(order):
        _name(axes, ranking, int(method), place, below)


def _length(axes: Any, difference: float) -> None:
    """The critical difference as a line, drawn above the scale."""
    axes.plot([1, 1 + difference], [-1.5, -1.5], "|-", color="black", linewidth=1.2, markersize=7)
    text = f"critical difference {difference:.2f} (Nemenyi, 5 %)"
    axes.text(1, -1.75, text, ha="left", va="bottom", fontsize=8)


def _name(axes: Any, ranking: Ranking, method: int, place: int, below: float) -> None:
    """The better half is named on the left, the best on top; the rest on the right."""
    k = len(ranking.methods)
    left = place < -(-k // 2)
    row = below + (place if left else k - 1 - place)
    rank, own = ranking.mean[method], ranking.methods[method] == "mlc"
    colour = BLUE if own else GRAY
    edge = 0.9 if left else k + 0.1
    axes.plot([rank, rank, edge], [0, row, row], color=colour, linewidth=1.8 if own else 0.9)
    text = (
        f"{ranking.methods[method]}  {rank:.2f}"
        if left
        else (f"{rank:.2f}  {ranking.methods[method]}")
    )
    axes.text(
        edge + (-0.08 if left else 0.08),
        row,
        text,
        ha="right" if left else "left",
        va="center",
        fontsize=9,
        color=BLUE if own else "black",
        fontweight="bold" if own else "normal",
    )
