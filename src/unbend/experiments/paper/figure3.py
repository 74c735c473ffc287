"""Figs. 3 and 4: coding rates, numerical ranks and similarities while stage 2 trains."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unbend.experiments.paper.trajectory import Trajectory, trajectory
from unbend.experiments.pictures import (
    BLUE,
    GRAY,
    GREEN,
    ORANGE,
    new_figure,
    sample_by_class,
    tidy,
)
from unbend.experiments.problem import Problem, open_problem, seeds_of
from unbend.experiments.runner import Runner, show_progress
from unbend.metrics import similarity_blocks
from unbend.metrics.tables import Table, file_name, mean_sd

__all__ = ["draw", "run"]


def run(
    *,
    data: str | None = None,
    encoder: str | None = None,
    checkpoint: str | None = None,
    scale: str = "small",
    seeds: int | None = None,
    out: Path | None = None,
    verbose: bool = True,
) -> Table:
    """Rates, ranks and similarities before and after stage 2; with ``out``, also the picture."""
    problem = open_problem(data, encoder, checkpoint, scale=scale)
    each = seeds_of(seeds, 1, 1, scale)
    with show_progress(verbose) as progress:
        runner = Runner(problem, progress)
        found = [trajectory(runner, seed) for seed in each]
    name = file_name("figure3", data, encoder, checkpoint)
    table = _table(problem, found).saved(out, name)
    if out is not None:
        draw(problem, found[0]).savefig(Path(out) / f"{name}.png", dpi=150)
    return table


def _table(problem: Problem, found: list[Trajectory]) -> Table:
    def row(name: str, values: Any, digits: int) -> list[str]:
        pairs = [values(t) for t in found]
        return [name, *(mean_sd([p[i] for p in pairs], digits) for i in (0, 1))]

    blocks = {id(t): [similarity_blocks(Z, problem.y) for Z in (t.Z_before, t.Z)] for t in found}
    rows = [
        row("R", lambda t: t.rates[[0, -1], 0], 1),
        row("R_c", lambda t: t.rates[[0, -1], 1], 1),
        row("ΔR", lambda t: (t.rates[:, 0] - t.rates[:, 1])[[0, -1]], 1),
        row("rank of all features", lambda t: t.ranks[[0, -1], 0], 1),
        row("rank of a true class, mean", lambda t: t.ranks[[0, -1], 1:].mean(1), 1),
        row("rank of a true class, largest", lambda t: t.ranks[[0, -1], 1:].max(1), 1),
        row("|cos| within true classes", lambda t: [b.within for b in blocks[id(t)]], 3),
        row("|cos| between true classes", lambda t: [b.between for b in blocks[id(t)]], 3),
    ]
    dim, seeds = problem.config.network.dim, len(found)
    seeds_text = f"{seeds} seeds, mean ± sd" if seeds > 1 else "1 seed"
    return Table(
        f"Figures 3 and 4. {problem.describe()}, d = {dim}, {seeds_text}",
        ["quantity", "start of stage 2", "end of stage 2"],
        rows,
        ["Rates are of batches, R_c under the learned membership; ranks and |cos| of all samples."],
    )


def draw(problem: Problem, t: Trajectory) -> Any:
    """Rates, ranks, and the heat map before and after, as one matplotlib figure."""
    figure = new_figure(15.5, 3.9)
    rates, ranks, before, after = figure.subplots(1, 4, width_ratios=[1.05, 1.05, 1, 1])
    _draw_rates(rates, t)
    _draw_ranks(ranks, problem, t)
    rows = sample_by_class(problem.y, max(1, min(40, 1000 // problem.k)))
    image = None
    for axes, Z, title in (
        (before, t.Z_before, "(c) $|Z Z^\\top|$ after stage 1"),
        (after, t.Z, "(d) $|Z Z^\\top|$ after MLC"),
    ):
        image = _draw_similarity(axes, Z[rows], problem.y[rows], title)
    figure.colorbar(image, ax=[before, after], shrink=0.85, label="|cosine|", pad=0.01)
    return figure


def _draw_rates(axes: Any, t: Trajectory) -> None:
    R, R_c = t.rates.T
    epoch = np.linspace(0, len(t.ranks) - 1, len(R))
    lines = {"$R$, all": (R, BLUE), "$R_c$, clustered": (R_c, ORANGE), "$ΔR$": (R - R_c, GREEN)}
    for name, (values, colour) in lines.items():
        axes.plot(epoch, values, color=colour, linewidth=2, label=name)
    axes.set_ylim(0, 1.25 * R.max())
    axes.set(title="(a) coding rates", xlabel="epoch of stage 2", ylabel="nats")
    axes.legend(frameon=False, fontsize=9, ncols=3, loc="upper center", columnspacing=1.0)
    tidy(axes)


def _draw_ranks(axes: Any, problem: Problem, t: Trajectory) -> None:
    epoch = np.arange(len(t.ranks))
    for ranks in t.ranks[:, 1:].T:
        (line,) = axes.plot(epoch, ranks, color=BLUE, linewidth=1, alpha=0.55)
    line.set_label(f"each of the {problem.k} true classes")
    axes.plot(epoch, t.ranks[:, 0], color=GRAY, linewidth=2.2, label="all features")
    axes.axhline(problem.config.network.dim, color=GRAY, linewidth=0.8, linestyle=":")
    axes.text(epoch[-1], problem.config.network.dim, "d ", ha="right", va="bottom", color=GRAY)
    axes.set_ylim(0, 1.3 * problem.config.network.dim)
    axes.set(title="(b) numerical ranks", xlabel="epoch of stage 2", ylabel="rank, 95 % of energy")
    axes.legend(frameon=False, fontsize=9, loc="upper left")
    tidy(axes)


def _draw_similarity(axes: Any, Z: NDArray[Any], y: NDArray[np.int64], title: str) -> Any:
    image = axes.imshow(np.abs(Z @ Z.T), cmap="magma", vmin=0, vmax=1, interpolation="nearest")
    classes, first, counts = np.unique(y, return_index=True, return_counts=True)
    few = len(classes) <= 20
    axes.set_xticks(first + counts / 2 - 0.5 if few else [], classes if few else [], fontsize=8)
    axes.set_yticks(first + counts / 2 - 0.5 if few else [], classes if few else [], fontsize=8)
    axes.tick_params(length=0)
    axes.set(title=title, xlabel="samples by true class")
    return image
