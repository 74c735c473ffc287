"""Table 4: many clusters."""

from __future__ import annotations

from unbend.experiments.paper.paper_table import paper_table
from unbend.experiments.paper.published import DEEP
from unbend.experiments.paper.table3 import compare_deep
from unbend.experiments.problem import Problem, open_problem, pairs_of_digits
from unbend.metrics.tables import Table
from unbend.progress import Progress

__all__ = ["run"]


def _open(data: str | None, encoder: str | None, checkpoint: str | None, *, scale: str) -> Problem:
    if scale == "small" and not (data or encoder or checkpoint):
        return pairs_of_digits()
    return open_problem(data, encoder, checkpoint, scale=scale, full="cifar100")


@paper_table("table4", seeds=(3, 3), opens=_open)
def run(problem: Problem, each: range, progress: Progress) -> Table:
    """CIFAR-100, or TinyImageNet-200 with ``data``; small: numbers 00 to 99 of two digits each."""
    published = DEEP["tinyimagenet" if "tiny" in problem.name else "cifar100"]
    return compare_deep("Table 4", problem, each, published, progress)
