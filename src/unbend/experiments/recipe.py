"""How the preset for small images was chosen without labels: by the agreement of seeds.

True labels are not loaded. A setting is good if runs with different seeds find the same clusters
(mean adjusted Rand index between them).
"""

from __future__ import annotations

from itertools import combinations, product
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import adjusted_rand_score

from unbend.estimator import MLC
from unbend.metrics.tables import Table
from unbend.progress import Tick, console_progress
from unbend.sources import load_named

__all__ = ["run"]

INVARIANCE = (1.4, 1.9, 2.4)
NEIGHBORS = (10, 15)


def run(*, seeds: int = 3, out: Path | None = None, n_clusters: int = 10) -> Table:
    """Agreement of seeds over a small grid on digits; about a minute per row and two seeds."""
    if seeds < 2:
        raise ValueError(f"`seeds` of recipe must be >= 2, got {seeds}; agreement needs two runs")
    X = load_named("digits").X
    grid = list(product(INVARIANCE, NEIGHBORS))
    rows = []
    with console_progress() as progress:
        for done, (invariance, neighbors) in enumerate(grid, 1):
            settings = {"pretrain.invariance": invariance, "views.n_neighbors": neighbors}
            models = [
                MLC(n_clusters, random_state=seed, settings=settings).fit(X)
                for seed in range(seeds)
            ]
            agreement = _agreement([model.labels_ for model in models])
            share = np.mean([_share_of_rate(model) for model in models])
            rows.append([f"{invariance}", f"{neighbors}", f"{agreement:.3f}", f"{share:.2f}"])
            progress(Tick("recipe", done, len(grid)))
    columns = [
        "invariance",
        "neighbours",
        "agreement of seeds (ARI)",
        "R after stage 1, share of max",
    ]
    caption = f"digits without labels: n = {len(X)}, k = {n_clusters}, {seeds} seeds"
    table = Table(caption, columns, rows)
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        table.write(out / "recipe")
    return table


def _agreement(labels: list[NDArray[np.int64]]) -> float:
    return float(np.mean([adjusted_rand_score(a, b) for a, b in combinations(labels, 2)]))


def _share_of_rate(model: MLC) -> float:
    config = model.config_
    largest = config.network.dim * np.log1p(1 / config.pretrain.eps_sq)
    last = [row["R"] for row in model.history_ if row["stage"] == "stage 1"][-1]
    return float(last / largest)
