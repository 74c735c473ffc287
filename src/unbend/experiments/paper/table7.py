"""Table 7: the contribution of each part of Algorithm 1."""

from __future__ import annotations

from pathlib import Path

from unbend.experiments.paper.published import ABLATION
from unbend.experiments.problem import open_problem, seeds_of
from unbend.experiments.runner import NO_VIEWS, Runner, RunResult, show_progress
from unbend.metrics.tables import EFFECT, SCORE_COLUMNS, Table, effect, file_name, score_cells

__all__ = ["run"]

NAMES = {
    "full": "full Algorithm 1",
    "random": "random start instead of stage 1",
    "ensc": "EnSC on stage-1 features instead of stage 2",
    "views": "no augmentation in stage 2",
}


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
    """Remove each part of Algorithm 1 in turn; all variants of a seed share stage 1."""
    problem = open_problem(data, encoder, checkpoint, scale=scale)
    each = seeds_of(seeds, 5, 3, scale)
    with show_progress(verbose) as progress:
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
    table = Table(
        f"Table 7. {problem.describe()}, {len(each)} seeds, mean ± sd",
        ["ablation", *SCORE_COLUMNS, "published ACC"],
        rows,
        [
            *_verdicts({k: [runner.score(f).acc for f in runs] for k, runs in found.items()}),
            EFFECT,
            "Published: CIFAR-10. No augmentation: one view, the sample itself, and no neighbour.",
        ],
    )
    return table.saved(out, file_name("table7", data, encoder, checkpoint))


def _verdicts(acc: dict[str, list[float]]) -> list[str]:
    """Whether each part improves the result, in words."""
    parts = {
        "random": "Stage 1 above a random start",
        "ensc": "Stage 2 above EnSC",
        "views": "Augmentation in stage 2 above none",
    }
    return [effect(claim, acc["full"], acc[key]) for key, claim in parts.items()]
