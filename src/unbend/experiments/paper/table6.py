"""Table 6: half of every other class removed."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from unbend.experiments.paper.published import IMBALANCED
from unbend.experiments.paper.table3 import CLASSICS
from unbend.experiments.problem import make_imbalanced, open_problem, seeds_of
from unbend.experiments.runner import Runner, show_progress
from unbend.metrics.tables import EFFECT, Table, effect, file_name, mean_sd

__all__ = ["run"]


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
    """ACC on all samples and with half of the classes 1, 3, ... removed, as in the paper."""
    problem = open_problem(data, encoder, checkpoint, scale=scale)
    reduced = make_imbalanced(problem)
    each = seeds_of(seeds, 5, 3, scale)
    with show_progress(verbose) as progress:
        balanced, imbalanced = (_accuracies(Runner(p, progress), each) for p in (problem, reduced))
    rows = [
        [
            name,
            mean_sd(balanced[name]),
            mean_sd(imbalanced[name]),
            _drop(balanced, imbalanced, name),
        ]
        for name in balanced
    ]
    rows += [
        [f"{name} (published, {which})", f"{a:.3f}", f"{b:.3f}", f"{a - b:.3f}"]
        for name, found in IMBALANCED.items()
        for which, (a, b) in found.items()
    ]
    table = Table(
        f"Table 6. {problem.describe()}; imbalanced: n = {len(reduced.y)}, half of the odd "
        f"classes removed; {len(each)} seeds, mean ± sd",
        ["method", "ACC, balanced", "ACC, imbalanced", "drop"],
        rows,
        [
            *_verdicts(balanced, imbalanced),
            EFFECT,
            "The drop is over the means of the seeds. Deep methods share stage 1 on each data set.",
        ],
    )
    return table.saved(out, file_name("table6", data, encoder, checkpoint))


def _accuracies(runner: Runner, each: range) -> dict[str, list[float]]:
    found = {
        "MLC": [runner.mlc(seed) for seed in each],
        "NMCE": [runner.peer("NMCE", seed) for seed in each],
        "EnSC on Z_TCR": [runner.classic("ensc", runner.features(seed), seed) for seed in each],
    }
    for name, method in CLASSICS.items():
        found[f"{name} on X"] = [runner.classic(method, runner.problem.X, seed) for seed in each]
    accuracy = {name: [runner.score(f).acc for f in runs] for name, runs in found.items()}
    return {**accuracy, "chance, true sizes": [runner.chance().acc]}


def _drop(balanced: dict[str, list[float]], imbalanced: dict[str, list[float]], name: str) -> str:
    return f"{np.mean(balanced[name]) - np.mean(imbalanced[name]):.3f}"


def _verdicts(balanced: dict[str, list[float]], imbalanced: dict[str, list[float]]) -> list[str]:
    """Which method loses least, and whether MLC loses less than each other method."""
    methods = [name for name in balanced if not name.startswith("chance")]
    drops = {name: np.subtract(balanced[name], imbalanced[name]) for name in methods}
    least = min(methods, key=lambda name: drops[name].mean())
    return [
        f"The smallest drop is that of {least}, the highest ACC of the imbalanced that of "
        f"{max(methods, key=lambda name: np.mean(imbalanced[name]))}.",
        *(
            effect(f"MLC drops less than {name}", drops[name].tolist(), drops["MLC"].tolist())
            for name in methods
            if name != "MLC"
        ),
    ]
