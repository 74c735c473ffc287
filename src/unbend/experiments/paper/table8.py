"""Table 8: MLC and NMCE over seeds, from the same stage-1 features.

Stage 1 runs once. Then each method runs with every seed, which decides the batches, the views,
and for NMCE also the initial cluster head. The paper uses the optimiser tuned for NMCE for MLC too;
here each has its own.
"""

from __future__ import annotations

import numpy as np

from unbend.experiments.paper.paper_table import paper_table
from unbend.experiments.paper.published import SEEDS
from unbend.experiments.problem import Problem
from unbend.experiments.runner import Runner
from unbend.metrics import Scores
from unbend.metrics.tables import Table
from unbend.progress import Progress

__all__ = ["run"]


@paper_table("table8", seeds=(10, 10))
def run(problem: Problem, each: range, progress: Progress) -> Table:
    """ACC and NMI of every seed, their mean and deviation, and the ratio of deviations."""
    runner = Runner(problem, progress)
    scores = {
        "MLC": [runner.score(runner.mlc(seed, stage1_seed=0)) for seed in each],
        "NMCE": [runner.score(runner.peer("NMCE", seed, stage1_seed=0)) for seed in each],
    }
    rows = [
        _row(method, metric, found) for method, found in scores.items() for metric in ("ACC", "NMI")
    ]
    chance = runner.chance()
    blank = [""] * len(each)
    rows += [
        ["chance", name, *blank, f"{getattr(chance, name.lower()):.3f}", "", ""]
        for name in ("ACC", "NMI")
    ]
    return Table(
        f"Table 8. {problem.describe()}, one stage 1, {len(each)} seeds of stage 2",
        ["method", "metric", *(f"seed {s}" for s in each), "mean", "sd", "published mean ± sd"],
        rows,
        [_verdict(scores), "Published: CIFAR-10, ten seeds."],
    )


def _values(found: list[Scores], metric: str) -> list[float]:
    return [getattr(s, metric.lower()) for s in found]


def _row(method: str, metric: str, found: list[Scores]) -> list[str]:
    values = _values(found, metric)
    mean, sd = SEEDS[method, metric]
    deviation = f"{np.std(values, ddof=1):.4f}" if len(values) > 1 else ""
    return [
        method,
        metric,
        *(f"{v:.3f}" for v in values),
        f"{np.mean(values):.3f}",
        deviation,
        f"{mean:.3f} ± {sd:.4f}",
    ]


def _verdict(scores: dict[str, list[Scores]]) -> str:
    mlc, nmce = (_values(scores[name], "ACC") for name in ("MLC", "NMCE"))
    gap = f"MLC is {np.mean(mlc) - np.mean(nmce):+.3f} ACC from NMCE on average"
    if len(mlc) < 2 or np.std(mlc) == 0:
        return gap + "."
    ratio = np.std(nmce, ddof=1) / np.std(mlc, ddof=1)
    return f"{gap}; the deviation of NMCE is {ratio:.1f} times that of MLC."
