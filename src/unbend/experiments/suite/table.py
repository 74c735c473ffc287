"""The tables of the suite: all problems together, and each by itself."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unbend.experiments.benchmark.cells import CellResult
from unbend.experiments.benchmark.datasets import Dataset
from unbend.experiments.suite.ranking import Ranking, rank_methods
from unbend.metrics import Scores, chance_scores
from unbend.metrics.tables import SCORE_COLUMNS, Table, mean_sd, score_cells
from unbend.notebook import count

__all__ = ["Results", "make_details", "make_summary", "rankings"]

SUMMARY = (
    "method", "mean rank ARI", "mean rank NMI", "first by ARI", "first by NMI",
    *SCORE_COLUMNS, "seconds", "finished",
)  # fmt: skip
DETAILS = (
    "problem", "n", "k", "method", *SCORE_COLUMNS, "rank ARI", "rank NMI", "seconds", "note"
)  # fmt: skip
RANKED = ("ARI", "NMI")
_LARGE = 1000  # samples from which seeds should agree
_PROMISE = {
    "development": "These problems are the ones that constants were chosen on. They show how well "
    "that went, not what to expect on other data; the list `test` is for that.",
    "test": "The rules of MLC were chosen on the list `development`. This list was run once per "
    "seed, with them fixed; docs/suite.md says what was known of it before.",
}


@dataclass
class Results:
    """Outcomes of all methods on the problems of a list."""

    which: str
    methods: Sequence[str]
    n_seeds: int
    problems: list[Dataset] = field(default_factory=list)
    outcomes: list[dict[str, Sequence[CellResult]]] = field(default_factory=list)
    chance: list[Scores] = field(default_factory=list)

    def add(self, samples: Dataset, found: dict[str, Sequence[CellResult]]) -> None:
        """One more problem."""
        self.problems.append(samples.without_file())
        self.outcomes.append(found)
        self.chance.append(chance_scores(samples.y, samples.y))

    def mean(self, what: str) -> NDArray[np.float64]:
        """Mean over seeds, problems × methods; NaN where not every seed finished."""
        return self._over_seeds(what, np.mean)

    def deviation(self, what: str) -> NDArray[np.float64]:
        """Sample deviation over seeds, problems × methods."""
        return self._over_seeds(what, lambda values: np.std(values, ddof=1))

    def _over_seeds(self, what: str, reduce: Any) -> NDArray[np.float64]:
        rows = [
            [
                reduce([_value(o, what) for o in found[m]])
                if all(o.scores is not None for o in found[m])
                else np.nan
                for m in self.methods
            ]
            for found in self.outcomes
        ]
        return np.array(rows, dtype=np.float64)


def _value(outcome: CellResult, what: str) -> float:
    source = outcome if what == "seconds" else outcome.scores
    return float(getattr(source, what.lower()))


def rankings(results: Results) -> dict[str, Ranking]:
    """The methods ranked by ARI and by NMI."""
    return {what: rank_methods([*results.methods], results.mean(what)) for what in RANKED}


def make_summary(results: Results) -> Table:
    """A row per method over all problems, the best mean rank by ARI first."""
    ranked = rankings(results)
    means = {what: results.mean(what) for what in (*SCORE_COLUMNS, "seconds")}
    total = len(results.problems)
    rows = []
    for m in np.argsort(ranked["ARI"].mean, kind="stable"):
        ranks = [f"{ranked[what].mean[m]:.2f}" for what in RANKED]
        wins = [str(ranked[what].wins[m]) for what in RANKED]
        scores = [_shown(means[what][:, m].mean(), 3) for what in SCORE_COLUMNS]
        seconds = _shown(means["seconds"][:, m].sum(), 0)
        finished = f"{(~np.isnan(means['ACC'][:, m])).sum()} of {total}"
        rows.append([results.methods[m], *ranks, *wins, *scores, seconds, finished])
    chance = [
        f"{np.mean([getattr(c, what.lower()) for c in results.chance]):.3f}"
        for what in SCORE_COLUMNS
    ]
    rows.append(["chance, true sizes", "", "", "", "", *chance, "", ""])
    return Table(_caption(results, "summary"), SUMMARY, rows, _notes(results, ranked))


def make_details(results: Results) -> Table:
    """A row per problem and method."""
    ranked = rankings(results)
    rows: list[list[str]] = []
    reasons: list[str] = []
    for number, samples in enumerate(results.problems):
        for column, method in enumerate(results.methods):
            outcomes = results.outcomes[number][method]
            ranks = [f"{ranked[what].ranks[number, column]:g}" for what in RANKED]
            failed = [o.reason for o in outcomes if o.scores is None]
            note = ""
            if failed:
                reasons.append(f"[{len(reasons) + 1}] {samples.name}, {method}: {failed[0]}")
                note = f"{len(failed)} of {results.n_seeds} failed [{len(reasons)}]"
            rows.append([*_about(samples), method, *_cells(outcomes, ranks), note])
        chance = score_cells([results.chance[number]])
        rows.append([*_about(samples), "chance, true sizes", *chance, "", "", "", ""])
    about = "Mean ± sd over the seeds that finished. Seconds are those of fit alone."
    notes = [_PROMISE[results.which], about, *reasons]
    return Table(_caption(results, "each problem"), DETAILS, rows, notes)


def _caption(results: Results, what: str) -> str:
    seeds = f"{results.n_seeds} seed" + "s" * (results.n_seeds > 1)
    some = count(len(results.problems), "problem")
    return f"suite, {results.which} list, {what}: {some}, {seeds}"


def _about(samples: Dataset) -> list[str]:
    return [samples.name, str(len(samples.y)), str(samples.n_classes)]


def _cells(outcomes: Sequence[CellResult], ranks: Sequence[str]) -> list[str]:
    """Scores, ranks and seconds of a method on a problem, over the seeds that finished."""
    scores = [o.scores for o in outcomes if o.scores is not None]
    if not scores:
        return ["", "", "", "", *ranks, ""]
    seconds = mean_sd([o.seconds for o in outcomes if o.scores is not None], 1)
    return [*score_cells(scores), *ranks, seconds]


def _shown(value: float, digits: int) -> str:
    """A number, or nothing if a method did not finish on all problems."""
    return "" if np.isnan(value) else f"{value:.{digits}f}"


def _notes(results: Results, ranked: dict[str, Ranking]) -> list[str]:
    notes = [
        _PROMISE[results.which],
        "k is given to every method. Every method has its default settings on every problem. A "
        "peer may take five times as long as MLC, and two minutes at least. Scores are means over "
        "the problems; seconds are those of fit alone, summed over the problems.",
        "Ranks are those of the mean over seeds; a method that did not finish shares the last. "
        + " ".join(_test(what, ranking) for what, ranking in ranked.items()),
    ]
    if "mlc" in results.methods:
        notes += _about_mlc(results)
    if any(samples.name == "docstrings" for samples in results.problems):
        notes.append(f"docstrings are those of Python {platform.python_version()}.")
    return notes


def _test(what: str, ranking: Ranking) -> str:
    text = f"By {what}, mean ranks that differ by less than {ranking.critical_difference:.2f}"
    chance = "" if np.isnan(ranking.p_value) else f"; Friedman's test: p = {ranking.p_value:.1g}"
    return f"{text} could be chance (Nemenyi, 5 %){chance}."


def _about_mlc(results: Results) -> list[str]:
    """Where MLC does worst compared with k-means, and where its seeds agree least."""
    notes, own = [], results.methods.index("mlc")
    names = [samples.name for samples in results.problems]
    if "kmeans" in results.methods:
        accuracy = results.mean("ACC")
        gap = accuracy[:, own] - accuracy[:, results.methods.index("kmeans")]
        if not np.isnan(gap).all():
            worst = int(np.nanargmin(gap))
            notes.append(f"ACC of MLC minus k-means is least on {names[worst]}: {gap[worst]:+.3f}.")
    large = np.array([len(samples.y) >= _LARGE for samples in results.problems])
    if results.n_seeds > 1 and large.any():
        deviation = np.where(large, results.deviation("ACC")[:, own], np.nan)
        if not np.isnan(deviation).all():
            worst = int(np.nanargmax(deviation))
            notes.append(
                f"Largest deviation of MLC's ACC over seeds where n ≥ {_LARGE}: "
                f"{deviation[worst]:.3f} on {names[worst]}."
            )
    return notes
