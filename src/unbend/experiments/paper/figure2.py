"""Fig. 2: the architecture, drawn with a real batch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from unbend.experiments.paper.trajectory import trajectory
from unbend.experiments.pictures import GRAY, as_picture, new_figure, sample_by_class
from unbend.experiments.problem import Problem, open_problem
from unbend.experiments.runner import Runner, show_progress
from unbend.functional import doubly_stochastic, rate_reduction
from unbend.metrics.tables import Table, file_name

__all__ = ["draw", "run"]


def run(
    *,
    data: str | None = None,
    encoder: str | None = None,
    checkpoint: str | None = None,
    scale: str = "small",
    out: Path | None = None,
    verbose: bool = True,
) -> Table:
    """Z, C, C Cᵀ and Γ of a batch after training, sorted by true class; sizes and marginals."""
    problem = open_problem(data, encoder, checkpoint, scale=scale)
    with show_progress(verbose) as progress:
        found = trajectory(Runner(problem, progress), 0)
    rows = sample_by_class(problem.y, max(2, 120 // problem.k))
    Z, C = found.Z[rows], found.C[rows]
    Gamma = _membership(C, problem.eta)
    name = file_name("figure2", data, encoder, checkpoint)
    table = _table(problem, Z, C, Gamma).saved(out, name)
    if out is not None:
        picture = draw(problem, rows, Z, C, Gamma)
        picture.savefig(Path(out) / f"{name}.png", dpi=150)
    return table


def _membership(C: NDArray[np.floating], eta: float) -> NDArray[np.float64]:
    codes = torch.from_numpy(np.asarray(C, dtype=np.float64))
    Gamma: NDArray[np.float64] = doubly_stochastic(codes @ codes.T, eta, tol=1e-10).Gamma.numpy()
    return Gamma


def _table(
    problem: Problem,
    Z: NDArray[np.floating],
    C: NDArray[np.floating],
    Gamma: NDArray[np.float64],
) -> Table:
    n, d = Z.shape
    rates = rate_reduction(
        torch.from_numpy(np.asarray(Z, dtype=np.float64)),
        torch.from_numpy(Gamma),
        problem.config.stage2.eps_sq,
    )
    error = max(np.abs(Gamma.sum(axis) - 1).max() for axis in (0, 1))
    rows = [
        ["X, samples", f"{n} × {' × '.join(map(str, problem.X.shape[1:]))}", ""],
        ["Z, features", f"{n} × {d}", f"R = {float(rates.R):.1f}"],
        ["C, codes", f"{n} × {C.shape[1]}", "unit rows"],
        ["C Cᵀ", f"{n} × {n}", f"from {(C @ C.T).min():.2f} to {(C @ C.T).max():.2f}"],
        ["Γ, membership", f"{n} × {n}", f"rows and columns sum to 1 within {error:.0e}"],
        ["objective", "", f"R - R_c = {float(rates.delta):.1f}"],
    ]
    return Table(
        f"Figure 2. {problem.describe()}; a batch of {n} after training, 1 seed",
        ["what", "size", "value"],
        rows,
    )


def draw(
    problem: Problem,
    rows: NDArray[np.int64],
    Z: NDArray[np.floating],
    C: NDArray[np.floating],
    Gamma: NDArray[np.float64],
) -> Any:
    """Samples → features and codes → similarities → membership."""
    figure = new_figure(15, 5.2)
    layout = [["X", "Z", "Z", "R", "R"], ["X", "C", "C", "S", "Gamma"]]
    panels = figure.subplot_mosaic(layout, width_ratios=[1.0, 0.8, 0.8, 1.1, 1.1])
    _draw_samples(panels["X"], problem, rows)
    _draw_rows(panels["Z"], Z, "feature head → $Z$", "PuOr")
    _draw_rows(panels["C"], C, "cluster head → $C$", "PuOr")
    _draw_square(panels["S"], C @ C.T, "similarity $C C^\\top$", "magma")
    _draw_square(panels["Gamma"], np.sqrt(Gamma), "membership $Γ = P_{Ω,η}(C C^\\top)$", "magma")
    panels["R"].set_axis_off()
    text = (
        "$\\max_θ\\; R(Z) - R_c(Z, Γ)$\n\n"
        "features spread over all directions,\n"
        "those of one neighbourhood in Γ over few"
    )
    panels["R"].text(0.5, 0.5, text, ha="center", va="center", fontsize=13, color=GRAY)
    return figure


def _draw_samples(axes: Any, problem: Problem, rows: NDArray[np.int64]) -> None:
    per_class = len(rows) // problem.k
    shown = rows.reshape(-1, per_class)[:12, :6] if len(rows) % problem.k == 0 else rows[:36, None]
    lines = [np.concatenate([_pad(as_picture(problem.X[i])) for i in line], 1) for line in shown]
    axes.imshow(np.concatenate(lines, 0), cmap="gray_r", vmin=0, vmax=1)
    axes.set_axis_off()
    axes.set_title("batch $X$ → backbone")


def _pad(picture: NDArray[np.float64]) -> NDArray[np.float64]:
    edge = max(1, picture.shape[0] // 16)
    fill = 0.0 if picture.ndim == 2 else 1.0
    widths = ((0, edge), (0, edge), *[(0, 0)] * (picture.ndim - 2))
    return np.pad(picture, widths, constant_values=fill)


def _draw_rows(axes: Any, values: NDArray[np.floating], title: str, colours: str) -> None:
    reach = float(np.quantile(np.abs(values), 0.99))
    axes.imshow(
        values.T, cmap=colours, vmin=-reach, vmax=reach, aspect="auto", interpolation="nearest"
    )
    axes.set(title=title, xlabel="samples by true class", ylabel="d", xticks=[], yticks=[])


def _draw_square(axes: Any, values: NDArray[np.floating], title: str, colours: str) -> None:
    axes.imshow(values, cmap=colours, interpolation="nearest", vmin=min(0.0, values.min()))
    axes.set(title=title, xticks=[], yticks=[], xlabel="samples by true class")
