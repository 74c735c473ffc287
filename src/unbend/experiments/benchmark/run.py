"""Methods × data sets × seeds, in one table.

Every cell (a method on a data set with a seed) runs in its own process, so that its peak memory is
measured alone and a crash affects no other cell. Its result is a small JSON file. A second run
computes only cells that are missing or failed; another setting is another cell, and so is other
code of the method.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from unbend.experiments.benchmark.cells import Cell, CellResult, run_cell
from unbend.experiments.benchmark.datasets import Dataset, open_dataset
from unbend.experiments.benchmark.worker import method_names
from unbend.metrics import Scores, chance_scores
from unbend.metrics.tables import SCORE_COLUMNS, Table, mean_sd, score_cells
from unbend.progress import Progress, Tick, console_progress

__all__ = ["MethodSpec", "parse_method", "run"]


@dataclass(frozen=True)
class MethodSpec:
    """A method and its changed parameters, as in ``ensc:gamma=20,l1_ratio=0.8``."""

    text: str
    name: str
    params: dict[str, Any]


def split_methods(text: str) -> list[str]:
    """Methods from a list with commas, which also stand between the parameters of one.

    >>> split_methods("mlc, ensc:gamma=20,l1_ratio=0.8,kmeans")
    ['mlc', 'ensc:gamma=20,l1_ratio=0.8', 'kmeans']
    """
    found: list[str] = []
    for word in filter(None, map(str.strip, text.split(","))):
        if found and ":" in found[-1] and "=" in word and ":" not in word:
            found[-1] += f",{word}"
        else:
            found.append(word)
    return found


def parse_method(text: str) -> MethodSpec:
    """Parse a method as a user writes it.

    >>> parse_method("ensc:gamma=20").params
    {'gamma': 20}
    """
    name, _, rest = text.partition(":")
    if name not in method_names():
        raise ValueError(f"no method is called {name!r}; known: {', '.join(method_names())}")
    params = {}
    for part in filter(None, rest.split(",")):
        key, equals, value = part.partition("=")
        if not equals:
            raise ValueError(
                f"{part!r} in method {text!r} is not a setting; write it like gamma=20"
            )
        try:
            params[key.strip()] = json.loads(value)
        except json.JSONDecodeError:
            params[key.strip()] = {"True": True, "False": False, "None": None}.get(value, value)
    _check_parameters(text, name, params)
    return MethodSpec(text, name, params)


def _check_parameters(text: str, name: str, params: dict[str, Any]) -> None:
    if not params:
        return
    from unbend.experiments.benchmark.worker import make_estimator

    known = set(make_estimator(name, 2, 0, {}).get_params()) - {"n_clusters", "random_state"}
    for key in params:
        if key not in known:
            raise ValueError(
                f"method {text!r} has no parameter {key!r}; known: {', '.join(sorted(known))}"
            )


def run(
    methods: Sequence[str] = ("mlc", "kmeans", "spectral", "ensc", "ssc-omp"),
    data: Sequence[str] = ("digits",),
    *,
    seeds: int | Sequence[int] = 5,
    out: str | Path,
    n_clusters: int | None = None,
    encoder: str | None = None,
    timeout: float | None = None,
    progress: Progress | None = None,
    verbose: bool = True,
) -> Table:
    """Run the missing cells and return the whole table.

    Parameters
    ----------
    methods : sequence of str
        Names as in :data:`unbend.baselines.METHODS`, and ``"mlc"``; parameters after a colon, as
        in ``"ensc:gamma=20"``.
    data : sequence of str
        Anything that :func:`unbend.sources.open_source` opens, with true labels after an ``@`` if
        the data has none: ``"digits"``, ``"cifar10:test"``, ``"x.npy@y.npy"``,
        ``"photos@folders"``. True labels are used for scoring and, unless ``n_clusters`` is
        given, for the number of clusters; no method sees them.
    seeds : int or sequence of int
        The number of seeds, which then start at 0, or the seeds themselves.
    out : path
        Where ``benchmark.md``, ``.csv``, ``.png``, and the cells are written.
    encoder : str, optional
        Embed images first, see :func:`unbend.networks.load_encoder`; vectors are not changed.
    timeout : float, optional
        Seconds after which a cell counts as failed.
    """
    specs = [parse_method(text) for text in dict.fromkeys(methods)]
    chosen = list(range(seeds)) if isinstance(seeds, int) else list(seeds)
    _check(specs, data, chosen, n_clusters)
    out = Path(out)
    (out / "cells").mkdir(parents=True, exist_ok=True)
    results: list[tuple[Dataset, dict[str, list[CellResult]]]] = []
    done, total = 0, len(specs) * len(chosen) * len(dict.fromkeys(data))
    shown = console_progress() if verbose and progress is None else nullcontext(progress)
    with shown as listen, TemporaryDirectory() as scratch:
        for text in dict.fromkeys(data):
            dataset = open_dataset(text, Path(scratch), encoder, listen)
            found: dict[str, list[CellResult]] = {}
            for spec in specs:
                for seed in chosen:
                    k = n_clusters or dataset.n_classes
                    cell = Cell(spec.name, spec.params, seed, k)
                    outcome = run_cell(cell, dataset, out / "cells", timeout)
                    found.setdefault(spec.text, []).append(outcome)
                    done += 1
                    if listen:
                        listen(Tick("benchmark", done, total))
            results.append((dataset.without_file(), found))
    table = _table(results, len(chosen), encoder)
    _write(table, results, out)
    return table


def _check(
    specs: list[MethodSpec], data: Sequence[str], seeds: list[int], n_clusters: int | None
) -> None:
    if not specs or not data:
        raise ValueError("a benchmark needs at least one method and one data set")
    if not seeds or any(seed < 0 for seed in seeds):
        raise ValueError(f"`seeds` of a benchmark must be >= 1, got {seeds}; try 5")
    if n_clusters is not None and n_clusters < 1:
        raise ValueError(
            f"`n_clusters` of a benchmark must be >= 1, got {n_clusters}; leave it out"
        )


COLUMNS = ["data", "method", "k", *SCORE_COLUMNS, "seconds", "CPU s", "peak MB", "note"]


def _table(
    results: list[tuple[Dataset, dict[str, list[CellResult]]]], n_seeds: int, encoder: str | None
) -> Table:
    rows: list[list[str]] = []
    reasons: list[str] = []
    for dataset, found in results:
        for text, outcomes in found.items():
            row, reason = _row(dataset, text, outcomes)
            if reason:  # goes below the table, where a long line does not squeeze columns
                reasons.append(f"[{len(reasons) + 1}] {dataset.name}, {text}: {reason}")
                row[-1] += f" [{len(reasons)}]"
            rows.append(row)
        rows.append(_chance_row(dataset, found))
    seeds = f"{n_seeds} seeds, mean ± sd" if n_seeds > 1 else "1 seed"
    sets = "; ".join(dataset.describe() for dataset, _ in results)
    caption = f"benchmark, {sets}; {seeds}" + (f"; images embedded by {encoder}" if encoder else "")
    notes = [
        "k is given to every method. Seconds are those of fit alone; CPU seconds add up all "
        "threads. Peak memory is that of a process of its own, libraries and data included.",
        *reasons,
    ]
    return Table(caption, COLUMNS, rows, notes)


def _row(dataset: Dataset, text: str, outcomes: list[CellResult]) -> tuple[list[str], str]:
    """The cells of a row, and the reason why some of its seeds failed."""
    good = [outcome for outcome in outcomes if outcome.scores is not None]
    failed = [outcome.reason for outcome in outcomes if outcome.scores is None]
    note = f"{len(failed)} of {len(outcomes)} failed" if failed else ""
    reason = "; ".join(dict.fromkeys(failed))
    if not good:
        return [dataset.name, text, *[""] * (len(COLUMNS) - 3), note], reason
    scores = [outcome.scores for outcome in good if outcome.scores is not None]
    k = ", ".join(map(str, sorted({s.n_clusters for s in scores})))
    times = [mean_sd([o.seconds for o in good], 1), mean_sd([o.cpu_seconds for o in good], 1)]
    memory = f"{max(outcome.peak_bytes for outcome in good) / 1e6:.0f}"
    return [dataset.name, text, k, *score_cells(scores), *times, memory, note], reason


def chance_of(dataset: Dataset, found: dict[str, list[CellResult]]) -> Scores | None:
    """Scores of random clusters with the sizes of the first successful result."""
    for outcomes in found.values():
        for outcome in outcomes:
            if outcome.scores is not None:
                # Noise, -1, comes first and is no cluster.
                first = outcome.scores.n_clusters - len(outcome.sizes)
                pred = np.repeat(first + np.arange(len(outcome.sizes)), outcome.sizes)
                return chance_scores(dataset.y, pred)
    return None


def _chance_row(dataset: Dataset, found: dict[str, list[CellResult]]) -> list[str]:
    chance = chance_of(dataset, found)
    if chance is None:
        return [dataset.name, "chance", *[""] * (len(COLUMNS) - 3), "no method finished"]
    cells = score_cells([chance])
    return [dataset.name, "chance, sizes of row 1", str(chance.n_clusters), *cells, "", "", "", ""]


def _write(
    table: Table, results: list[tuple[Dataset, dict[str, list[CellResult]]]], out: Path
) -> None:
    from unbend.experiments.benchmark.plot import draw

    table.write(out / "benchmark")
    try:
        figure = draw([(s.title(), found, chance_of(s, found)) for s, found in results])
    except ImportError:  # matplotlib is optional; the table is written without it
        return
    figure.savefig(out / "benchmark.png", dpi=150)
