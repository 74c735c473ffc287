"""Fig. 1: two manifolds on the sphere, straightened into a plane and a line."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from unbend.algorithm import solve
from unbend.begin import begin
from unbend.config import PRESETS
from unbend.devices import make_fabric
from unbend.labels import label_codes
from unbend.metrics import cluster_ranks, clustering_accuracy, largest_subspace_cosine
from unbend.metrics.tables import Table, mean_sd
from unbend.networks import Network
from unbend.progress import Tick, console_progress
from unbend.samples import make_sphere_manifolds, prepare

__all__ = ["StageResult", "draw", "run", "stages"]

NAMES = ("stage 0: random", "stage 1: self-supervised", "stage 2: MLC")


class StageResult(NamedTuple):
    """Features after a stage, and how good they are."""

    Z: NDArray[np.floating]
    accuracy: float
    ranks: tuple[int, int]  # of the curve and of the point
    cosine: float


def stages(seed: int) -> tuple[NDArray[np.float64], NDArray[np.int64], list[StageResult]]:
    """Samples, true labels and the three stages for one seed of data and network."""
    config = PRESETS["simulation"]
    X, y = make_sphere_manifolds(random_state=seed)
    samples, _ = prepare(X)
    found: list[StageResult] = []
    eta = float(config.stage2.eta)

    def look(network: Network) -> None:
        Z, C = network.encode(samples)
        model = label_codes(C, Z, 2, eta=eta, eps_sq=config.stage2.eps_sq, seed=seed)
        ranks = cluster_ranks(Z, y)
        found.append(
            StageResult(
                Z.numpy(),
                clustering_accuracy(y, model.labels),
                (ranks[0], ranks[1]),
                largest_subspace_cosine(Z, y),
            )
        )

    def callback(tick: Tick) -> None:
        if tick.done == 0:
            network = copy.deepcopy(tick.network)
            network.copy_feature_head()  # codes before line 2 would be unrelated to the features
            look(network)

    fabric = make_fabric("cpu")
    look(solve(begin(samples, config, seed=seed, fabric=fabric, callbacks=[callback]), 2).network)
    return X, y, found


def run(*, seeds: int = 10, out: Path | None = None, verbose: bool = True) -> Table:
    """Table of the three stages over seeds; with ``out``, also the picture of the first seed."""
    results = []
    with console_progress() as progress:
        for seed in range(seeds):
            results.append(stages(seed))
            if verbose:
                progress(Tick("figure1", seed + 1, seeds))
    table = _table([found for _, _, found in results])
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        table.write(out / "figure1")
        X, y, found = results[0]
        draw(X, y, found).savefig(out / "figure1.png", dpi=150)
    return table


def _table(results: list[list[StageResult]]) -> Table:
    n = len(results[0][0].Z)
    rows = []
    for k, name in enumerate(NAMES):
        found = [stages[k] for stages in results]
        rows.append(
            [
                name,
                mean_sd([s.accuracy for s in found]),
                _range([s.ranks[0] for s in found]),
                _range([s.ranks[1] for s in found]),
                mean_sd([s.cosine for s in found]),
                f"{max(s.cosine for s in found):.3f}",
            ]
        )
    rows.append(["chance", mean_sd([_chance(n)]), "", "", "", ""])
    columns = ["features", "ACC", "rank, curve", "rank, point", "|cos|", "largest |cos|"]
    caption = f"Figure 1: n = {n}, all samples, d = 3, {len(results)} seeds, mean ± sd"
    return Table(caption, columns, rows)


def _chance(n: int) -> float:
    from unbend.metrics import chance_scores

    y = np.repeat([0, 1], n // 2)
    return chance_scores(y, y).acc


def _range(values: list[int]) -> str:
    low, high = min(values), max(values)
    return str(low) if low == high else f"{low} to {high}"


def draw(X: NDArray[np.float64], y: NDArray[np.int64], found: list[StageResult]) -> Any:
    """The four panels as one matplotlib figure."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("the picture needs matplotlib: pip install 'unbend[plot]'") from error
    figure = Figure(figsize=(14, 4.2))
    figure.subplots_adjust(left=0, right=1, bottom=0, top=0.86, wspace=0)
    panels = [
        ("samples X", X, ""),
        *((n, s.Z, _note(s)) for n, s in zip(NAMES, found, strict=True)),
    ]
    for k, (title, points, note) in enumerate(panels):
        axes: Any = figure.add_subplot(1, 4, k + 1, projection="3d")
        _sphere(axes)
        for label, colour, name in ((0, "#2a9d5c", "curve"), (1, "#2b6cb0", "point")):
            part = points[y == label]
            axes.scatter(*part.T, s=12, color=colour, depthshade=False, label=name)
        axes.set_title(f"({'abcd'[k]}) {title}\n{note}", fontsize=10)
        axes.set_box_aspect((1, 1, 1), zoom=1.35)
        axes.set_axis_off()
        axes.view_init(elev=22, azim=-55)
    figure.axes[0].legend(loc="lower left", fontsize=9, frameon=False)
    return figure


def _note(stage: StageResult) -> str:
    curve, point = stage.ranks
    return f"ACC {stage.accuracy:.2f}, ranks {curve} and {point}, |cos| {stage.cosine:.2f}"


def _sphere(axes: Any) -> None:
    u, v = np.mgrid[0 : 2 * np.pi : 25j, 0 : np.pi : 13j]
    axes.plot_wireframe(
        np.cos(u) * np.sin(v), np.sin(u) * np.sin(v), np.cos(v), color="#bbbbbb", linewidth=0.3
    )
