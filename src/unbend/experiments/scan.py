"""SCAN after SimCLR on 10,000 images of Fashion-MNIST, before and after self-labelling."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from unbend.baselines.classics import kmeans_labels
from unbend.experiments.problem import SCALES, Problem, open_problem, seeds_of
from unbend.experiments.runner import Runner, show_progress
from unbend.metrics import chance_scores, clustering_scores
from unbend.metrics.tables import SCORE_COLUMNS, Table, effect, mean_sd, score_cells

__all__ = ["LIMITS", "SCAN_PARAMS", "SETTINGS", "run"]

# The preset for small images with half its width and SCAN with fewer epochs than its default, so
# that a seed takes some minutes of one core. Nothing here was chosen by a score.
SETTINGS: dict[str, Any] = {"network.width": 8}
SCAN_PARAMS: dict[str, Any] = {"epochs": 20}
LIMITS = {"small": 10_000, "full": 60_000}


def run(
    *,
    scale: str = "small",
    seeds: int | None = None,
    out: Path | None = None,
    verbose: bool = True,
) -> Table:
    """Run each seed once; finished seeds are cached, so a second call continues."""
    if scale not in SCALES:
        raise ValueError(f"`scale` must be one of {', '.join(SCALES)}, got {scale!r}; try 'small'")
    problem = open_problem("fashion-mnist:train", limit=LIMITS[scale])
    return compare(problem.with_config(SETTINGS), seeds_of(seeds, 3, 3, scale), verbose).saved(
        out, "scan"
    )


def compare(problem: Problem, each: range, verbose: bool) -> Table:
    """The table for a problem of images."""
    y = problem.y
    with show_progress(verbose) as progress:
        runner = Runner(problem, progress)
        runs = [runner.from_images("scan", "simclr", seed, **SCAN_PARAMS) for seed in each]
    kmeans = [kmeans_labels(run.Z, problem.k, seed) for run, seed in zip(runs, each, strict=True)]
    pixels = problem.X.reshape(len(y), -1).astype(np.float32)
    labels = {
        "SCAN with self-labelling": [run.labels for run in runs],
        "SCAN without": [run.before for run in runs],
        "k-means on the same backbone's features": kmeans,
        "k-means on pixels": [kmeans_labels(pixels, problem.k, seed) for seed in each],
    }
    scores = {name: [clustering_scores(y, x) for x in found] for name, found in labels.items()}
    stage3 = [run.stage3 for run in runs]
    stage2 = [run.seconds - run.stage3 for run in runs]
    seconds = {"SCAN with self-labelling": mean_sd(stage3, 0), "SCAN without": mean_sd(stage2, 0)}
    rows = [[name, *score_cells(s), seconds.get(name, "")] for name, s in scores.items()]
    rows.append(["chance", *score_cells([chance_scores(y, y)]), ""])
    after, before, centres, _ = ([s.acc for s in found] for found in scores.values())
    first = mean_sd([run.stage1 for run in runs], 0)
    return Table(
        f"{problem.describe()}, {len(each)} seeds, mean ± sd",
        ["method", *SCORE_COLUMNS, "seconds of the step"],
        rows,
        [
            effect("ACC of SCAN without self-labelling above k-means", before, centres),
            effect("ACC with self-labelling above without", after, before),
            f"SimCLR trains the backbone first ({first} s). SCAN makes {SCAN_PARAMS['epochs']} "
            "epochs; self-labelling uses samples with a probability above 0.99.",
        ],
    )
