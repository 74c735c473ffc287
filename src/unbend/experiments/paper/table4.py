"""Table 4: many clusters."""

from __future__ import annotations

from pathlib import Path

from unbend.experiments.paper.published import DEEP
from unbend.experiments.paper.table3 import compare_deep
from unbend.experiments.problem import open_problem, pairs_of_digits, seeds_of
from unbend.experiments.runner import show_progress
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
    """CIFAR-100, or TinyImageNet-200 with ``data``; small: numbers 00 to 99 of two digits each."""
    if scale == "small" and data is None and not (encoder or checkpoint):
        problem = pairs_of_digits()
    else:
        problem = open_problem(data, encoder, checkpoint, scale=scale, full="cifar100")
    each = seeds_of(seeds, 3, 3, scale)
    published = DEEP["tinyimagenet" if "tiny" in problem.name else "cifar100"]
    with show_progress(verbose) as progress:
        table = compare_deep("Table 4", problem, each, published, progress)
    return table.saved(out, file_name("table4", data, encoder, checkpoint))
