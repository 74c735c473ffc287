"""The picture of a benchmark: scores on the left, time on the right, one row per data set."""

from __future__ import annotations

from typing import Any

import numpy as np

from unbend.experiments.benchmark.cells import CellResult
from unbend.metrics import Scores

__all__ = ["draw"]

_STYLES = {
    "acc": ("ACC", "o", "#0072b2"),
    "nmi": ("NMI", "s", "#d55e00"),
    "ami": ("AMI", "D", "#009e73"),
    "ari": ("ARI", "^", "#cc79a7"),
}

Panel = tuple[str, dict[str, list[CellResult]], Scores | None]


def draw(panels: list[Panel]) -> Any:
    """All data sets as one matplotlib figure."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("the picture needs matplotlib: pip install 'unbend[plot]'") from error
    heights = [max(2, len(found)) * 0.42 + 1.0 for _, found, _ in panels]
    figure = Figure(figsize=(11, sum(heights) + 0.6), layout="constrained")
    axes = figure.subplots(
        len(panels), 2, squeeze=False, height_ratios=heights, width_ratios=[3, 2]
    )
    for (title, found, chance), (left, right) in zip(panels, axes, strict=True):
        _scores(left, title, found, chance)
        _seconds(right, found)
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=5, frameon=False)
    return figure


def _scores(
    axes: Any, title: str, found: dict[str, list[CellResult]], chance: Scores | None
) -> None:
    for k, (name, (label, marker, colour)) in enumerate(_STYLES.items()):
        places, means, deviations = [], [], []
        for row, outcomes in enumerate(found.values()):
            values = [getattr(o.scores, name) for o in outcomes if o.scores is not None]
            if values:
                places.append(row + (k - 1.5) * 0.17)
                means.append(np.mean(values))
                deviations.append(np.std(values, ddof=1) if len(values) > 1 else 0.0)
        axes.errorbar(means, places, xerr=deviations, fmt=marker, color=colour, label=label,
                      markersize=5, capsize=2, linewidth=1.2)  # fmt: skip
    if chance is not None:
        axes.axvline(chance.acc, color="#666666", linestyle="--", linewidth=1, label="chance (ACC)")
    _frame(axes, found)
    axes.set_xlim(-0.02, 1.02)
    axes.set_title(title, fontsize=10, loc="left")
    axes.set_xlabel("score, mean ± sd over seeds")


def _seconds(axes: Any, found: dict[str, list[CellResult]]) -> None:
    for row, outcomes in enumerate(found.values()):
        good = [o for o in outcomes if o.scores is not None]
        if not good:
            axes.annotate("failed", (0.02, row), xycoords=("axes fraction", "data"),
                          va="center", color="#b00020", fontsize=9)  # fmt: skip
            continue
        seconds = float(np.mean([o.seconds for o in good]))
        peak = max(o.peak_bytes for o in good) / 1e6
        axes.plot(seconds, row, "o", color="#444444", markersize=6)
        text = (
            f"  {seconds:.2g} s, {peak:.0f} MB"
            if seconds < 10
            else f"  {seconds:.0f} s, {peak:.0f} MB"
        )
        axes.annotate(text, (seconds, row), va="center", fontsize=8)
    _frame(axes, found)
    axes.set_yticklabels([])
    axes.set_xscale("log")
    low, high = axes.get_xlim()
    axes.set_xlim(low, high * (high / low) ** 0.6)  # leave room for the text
    axes.set_title("time of fit and peak memory", fontsize=10, loc="left")
    axes.set_xlabel("seconds (log)")


def _frame(axes: Any, found: dict[str, list[CellResult]]) -> None:
    axes.set_yticks(range(len(found)), list(found), fontsize=9)
    axes.set_ylim(len(found) - 0.5, -0.5)
    axes.grid(axis="x", color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
