"""Table 8: MLC and NMCE over seeds, from the same stage-1 features.

Stage 1 runs once. Then each method runs with every seed, which decides the batches, the views,
and for NMCE also the initial cluster head. The paper uses the optimiser tuned for NMCE for MLC too;
here each has its own.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from unbend.experiments.paper.published import SEEDS
from unbend.experiments.problem import open_problem, seeds_of
from unbend.experiments.runner import Runner, show_progress
from unbend.metrics import Scores
from unbend.metrics.tables import Table, file_name

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
    """ACC and NMI of every seed, their mean and deviation, and the ratio of deviations."""
    problem = open_problem(data, encoder, checkpoint, scale=scale)
    each = seeds_of(seeds, 10, 10, scale)
    with show_progress(verbose) as progress:
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
    table = Table(
        f"Table 8. {problem.describe()}, one stage 1, {len(each)} seeds of stage 2",
        ["method", "metric", *(f"seed {s}" for s in each), "mean", "sd", "published mean ± sd"],
        rows,
        [_verdict(scores), "Published: CIFAR-10, ten seeds."],
    )
    return table.saved(out, file_name("table8", data, encoder, checkpoint))


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
