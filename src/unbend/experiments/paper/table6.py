"""Table 6: half of every other class removed."""

from __future__ import annotations

import numpy as np

from unbend.experiments.paper.paper_table import over_seeds, paper_table
from unbend.experiments.paper.published import IMBALANCED
from unbend.experiments.paper.table3 import CLASSICS
from unbend.experiments.problem import Problem, make_imbalanced
from unbend.experiments.runner import Runner
from unbend.metrics.tables import EFFECT, Table, effect, mean_sd
from unbend.progress import Progress

__all__ = ["run"]


@paper_table("table6", seeds=(5, 3))
def run(problem: Problem, each: range, progress: Progress) -> Table:
    """ACC on all samples and with half of the classes 1, 3, ... removed, as in the paper."""
    reduced = make_imbalanced(problem)
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
    return Table(
        f"Table 6. {problem.describe()}; imbalanced: n = {len(reduced.y)}, half of the odd "
        f"classes removed; {over_seeds(each)}",
        ["method", "ACC, balanced", "ACC, imbalanced", "drop"],
        rows,
        [
            *_verdicts(balanced, imbalanced),
            EFFECT,
            "The drop is over the means of the seeds. Deep methods share stage 1 on each data set.",
        ],
    )


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
