"""What the tables of the paper share: their options, the problem, the seeds, and the files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from unbend.experiments.problem import Problem, open_problem, seeds_of
from unbend.experiments.runner import show_progress
from unbend.metrics.tables import Table, file_name
from unbend.progress import Progress

__all__ = ["over_seeds", "paper_table"]

MakeTable = Callable[[Problem, range, Progress], Table]


def over_seeds(each: range) -> str:
    """For captions: the number of seeds, and what cells show.

    >>> over_seeds(range(3)), over_seeds(range(1))
    ('3 seeds, mean ± sd', '1 seed')
    """
    return f"{len(each)} seeds, mean ± sd" if len(each) > 1 else "1 seed"


def paper_table(
    name: str,
    *,
    seeds: tuple[int, int],
    opens: Callable[..., Problem] | None = None,
    **options: Any,
) -> Callable[[MakeTable], Callable[..., Table]]:
    """Turn a function of a problem, seeds and progress into the ``run`` of a table.

    Parameters
    ----------
    name : str
        Name of the experiment and of its files.
    seeds : pair of int
        Default number of seeds at the scales ``"small"`` and ``"full"``.
    opens : callable, optional
        Opens the problem; :func:`~unbend.experiments.problem.open_problem` by default.
    **options
        Further options of ``opens``.
    """
    small, full = seeds

    def decorate(make: MakeTable) -> Callable[..., Table]:
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
            problem = (opens or open_problem)(data, encoder, checkpoint, scale=scale, **options)
            each = seeds_of(seeds, small, full, scale)
            with show_progress(verbose) as progress:
                table = make(problem, each, progress)
            return table.saved(out, file_name(name, data, encoder, checkpoint))

        run.__doc__ = make.__doc__
        return run

    return decorate
