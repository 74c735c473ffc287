"""All methods on a fixed list of problems: scores, mean ranks, first places, seconds.

The list "development" is for choosing constants. The list "test" is for reporting: it is run once
per seed when all constants are fixed. Every cell runs in its own process and its result is
stored, so a run continues where an earlier one stopped.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from unbend.disk import default_cache_dir, hash_array, hash_values
from unbend.experiments.benchmark.cells import Cell, CellResult, run_cell
from unbend.experiments.benchmark.datasets import Dataset
from unbend.experiments.benchmark.run import MethodSpec, parse_method, split_methods
from unbend.experiments.benchmark.worker import method_names
from unbend.experiments.problem import seeds_of
from unbend.experiments.runner import show_progress
from unbend.experiments.suite.picture import draw_ranks
from unbend.experiments.suite.problems import load_problem, problem_names
from unbend.experiments.suite.table import Results, make_details, make_summary, rankings
from unbend.metrics.tables import Table, file_name
from unbend.progress import Progress, Tick

__all__ = ["run", "time_limit"]

FACTOR = 5.0  # a peer may take this many times as long as MLC
LEAST = 120.0  # seconds that every peer gets: on small problems most of it is imports
MOST = 3600.0  # seconds for MLC itself, and for peers where it did not finish


def run(
    *,
    list: str = "development",
    data: str | None = None,
    methods: str | None = None,
    seeds: int | None = None,
    out: Path | None = None,
    verbose: bool = True,
) -> Table:
    """Run the methods on the problems of a list; returns the table over all of them.

    A table of the scores on each problem and a picture of the mean ranks are written as well.

    Parameters
    ----------
    list : {"development", "test"}
        Which of the two lists.
    data : str, optional
        Some problems of the list, as in ``"digits,vowel"``.
    methods : str, optional
        Some methods, written as for ``unbend benchmark``: ``"mlc,kmeans"``; by default all.
    seeds : int, optional
        How many; by default 3.
    out : path, optional
        Where the tables and the picture go.
    """
    names = problem_names(list, _words(data))
    wanted = [parse_method(text) for text in split_methods(methods or "") or method_names()]
    each = seeds_of(seeds, 3, 3, "small")
    cells = default_cache_dir() / "experiments" / "suite"
    cells.mkdir(parents=True, exist_ok=True)
    results = Results(list, [spec.text for spec in wanted], len(each))
    with show_progress(verbose) as progress, TemporaryDirectory() as scratch:
        problems = [_open(list, name, Path(scratch)) for name in names]
        ticks = _Ticks(progress, len(problems) * len(wanted) * len(each))
        for samples in problems:
            results.add(samples, _run_methods(samples, wanted, each, cells, ticks))
    name = file_name("suite", list, data, methods)
    make_details(results).saved(out, f"{name}-problems")
    _draw(results, out, name)
    return make_summary(results).saved(out, name)


def time_limit(mlc: Sequence[CellResult]) -> float:
    """Seconds for a peer: five times MLC's mean, but at least two minutes."""
    seconds = [outcome.seconds for outcome in mlc if outcome.scores is not None]
    return max(LEAST, float(np.ceil(FACTOR * np.mean(seconds)))) if seconds else MOST


def _words(text: str | None) -> Sequence[str]:
    return [word.strip() for word in (text or "").split(",") if word.strip()]


def _open(which: str, name: str, scratch: Path) -> Dataset:
    """A problem in a file, for the cells."""
    X, y = load_problem(which, name)
    path = scratch / f"{name}.npy"
    np.save(path, X)
    fingerprint = hash_values(hash_array(X), hash_array(y))
    return Dataset(name, which, path, fingerprint, tuple(X.shape), y)


class _Ticks:
    """Counts finished cells."""

    def __init__(self, progress: Progress, total: int) -> None:
        self.progress, self.total, self.done = progress, total, 0

    def __call__(self) -> None:
        self.done += 1
        self.progress(Tick("suite", self.done, self.total))


def _run_methods(
    samples: Dataset, methods: Sequence[MethodSpec], seeds: range, cells: Path, ticks: _Ticks
) -> dict[str, Sequence[CellResult]]:
    """The outcomes of each method; MLC runs first, because its time sets the others' limit."""
    found: dict[str, Sequence[CellResult]] = {}
    for spec in sorted(methods, key=lambda spec: spec.text != "mlc"):
        limit = MOST if spec.name == "mlc" else time_limit(found.get("mlc", ()))
        outcomes: list[CellResult] = []
        for seed in seeds:
            late = outcomes and outcomes[-1].limit is not None
            cell = Cell(spec.name, spec.params, seed, samples.n_classes)
            # If one seed takes too long, so would the others.
            outcomes.append(outcomes[-1] if late else run_cell(cell, samples, cells, limit))
            ticks()
        found[spec.text] = outcomes
    return found


def _draw(results: Results, out: Path | None, name: str) -> None:
    if out is None or len(results.methods) < 2:
        return
    try:
        figure = draw_ranks(rankings(results))
    except ImportError:  # the table is worth more than the picture; the extra is optional
        return
    Path(out).mkdir(parents=True, exist_ok=True)
    figure.savefig(Path(out) / f"{name}.png", dpi=150)
