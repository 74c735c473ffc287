"""Table 7: the contribution of each part of Algorithm 1."""

from __future__ import annotations

from unbend.experiments.paper.paper_table import over_seeds, paper_table
from unbend.experiments.paper.published import ABLATION
from unbend.experiments.problem import Problem
from unbend.experiments.runner import NO_VIEWS, Runner, RunResult
from unbend.metrics.tables import EFFECT, SCORE_COLUMNS, Table, effect, score_cells
from unbend.progress import Progress

__all__ = ["run"]

NAMES = {
    "full": "full Algorithm 1",
    "random": "random start instead of stage 1",
    "ensc": "EnSC on stage-1 features instead of stage 2",
    "views": "no augmentation in stage 2",
}


@paper_table("table7", seeds=(5, 3))
def run(problem: Problem, each: range, progress: Progress) -> Table:
    """Remove each part of Algorithm 1 in turn; all variants of a seed share stage 1."""
    runner = Runner(problem, progress)
    found: dict[str, list[RunResult]] = {
        "full": [runner.mlc(seed) for seed in each],
        "random": [runner.mlc(seed, random_start=True) for seed in each],
        "ensc": [runner.classic("ensc", runner.features(seed), seed) for seed in each],
        "views": [runner.mlc(seed, changes=NO_VIEWS) for seed in each],
    }
    rows = [
        [NAMES[k], *score_cells([runner.score(f) for f in runs]), f"{ABLATION[k]:.3f}"]
        for k, runs in found.items()
    ]
    rows.append(["chance, true sizes", *score_cells([runner.chance()]), ""])
    return Table(
        f"Table 7. {problem.describe()}, {over_seeds(each)}",
        ["ablation", *SCORE_COLUMNS, "published ACC"],
        rows,
        [
            *_verdicts({k: [runner.score(f).acc for f in runs] for k, runs in found.items()}),
            EFFECT,
            "Published: CIFAR-10. No augmentation: one view, the sample itself, and no neighbour.",
        ],
    )


def _verdicts(acc: dict[str, list[float]]) -> list[str]:
    """Whether each part improves the result, in words."""
    parts = {
        "random": "Stage 1 above a random start",
        "ensc": "Stage 2 above EnSC",
        "views": "Augmentation in stage 2 above none",
    }
    return [effect(claim, acc["full"], acc[key]) for key, claim in parts.items()]
