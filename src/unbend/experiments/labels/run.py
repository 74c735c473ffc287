"""The tables of ``unbend reproduce labels``: one for each figure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from unbend.experiments.labels.measure import (
    WAYS,
    Found,
    measure_count,
    measure_given,
    measure_merge,
    measure_outliers,
)
from unbend.experiments.problem import seeds_of
from unbend.experiments.runner import show_progress
from unbend.experiments.suite import synthetic
from unbend.experiments.suite.problems import load_problem
from unbend.metrics.tables import Table, file_name, mean_sd
from unbend.progress import Progress, Tick

__all__ = ["PARTS", "Tables", "run"]

FIVE = ("digits", "cifar10-lite2-200", "surfaces-8", "subspaces-7", "subspaces-30x9")
DRAWN: dict[str, Callable[[], tuple[NDArray[Any], NDArray[np.int64]]]] = {
    **{f"union of {k}": partial(synthetic.subspaces, k) for k in (3, 4, 5, 7, 10, 12, 15, 20)},
    # Not looked at while the rule for the number of clusters was chosen.
    "surfaces of 14": partial(synthetic.surfaces, 14, most=250),
    "turned objects of 12": partial(synthetic.turned_objects, 12),
    "faces of 15": partial(synthetic.faces_under_light, 15, each=80),
    "few of 24": partial(synthetic.few_of_many, 24, each=20),
    "curves of 6": partial(synthetic.curves, 6),
}
COUNTED = (
    *("digits", "digits-images", "cifar10-lite2-200", "cifar10-lite2-60", "curves-10"),
    *("surfaces-8", "subspaces-30x9", "faces-under-light", "satellite", "vowel"),
    *(name for name in DRAWN if name.startswith("union")),
)
_NEAR = 0.1  # of the true number


@dataclass(frozen=True)
class Tables:
    """One table for each figure."""

    tables: Sequence[Table]

    def print(self) -> None:
        """Print all of them to standard output."""
        for table in self.tables:
            table.print()


def run(
    *,
    data: str | None = None,
    methods: str | None = None,
    seeds: int | None = None,
    out: Path | None = None,
    verbose: bool = True,
) -> Tables:
    """Measure what the labels promise; 10 to 30 seconds of a core for each fit.

    Parameters
    ----------
    data : str, optional
        Some problems of the development list or of those drawn for this experiment, as in
        ``"digits,vowel"`` or ``"union of 7"``.
    methods : str, optional
        Some parts of ``merge,count,confidence,outliers``; by default all.
    seeds : int, optional
        How many; by default 3, and 5 for the number of clusters.
    out : path, optional
        Where the tables go.
    """
    parts = _words(methods) or list(PARTS)
    for part in parts:
        if part not in PARTS:
            raise ValueError(f"labels has no part {part!r}; known: {', '.join(PARTS)}")
    tables = []
    with show_progress(verbose) as progress:
        for part in parts:
            names = _words(data) or PARTS[part].problems
            each = seeds_of(seeds, PARTS[part].seeds, PARTS[part].seeds, "small")
            table = _table(part, names, each, progress)
            tables.append(table.saved(out, file_name(f"labels-{part}", data)))
    return Tables(tables)


def _table(part: str, names: Sequence[str], seeds: Sequence[int], progress: Progress) -> Table:
    this = PARTS[part]
    found: dict[str, list[Found]] = {}
    rows = []
    for name in names:
        X, y = _load(name)
        found[name] = []
        for seed in seeds:
            found[name].append({"true": len(np.unique(y)), **this.measure(X, y, seed)})
            done = sum(map(len, found.values()))
            progress(Tick(f"labels: {part}", done, len(names) * len(seeds)))
        rows.append([f"{name}, n = {len(y)}", *this.cells(found[name])])
    caption = f"{this.caption}: development problems, {len(seeds)} seeds"
    return Table(caption, this.columns, rows, [*this.notes, *this.summary([*found.values()])])


def _words(text: str | None) -> list[str]:
    return [word.strip() for word in (text or "").split(",") if word.strip()]


def _load(name: str) -> tuple[NDArray[Any], NDArray[np.int64]]:
    return DRAWN[name]() if name in DRAWN else load_problem("development", name)


# ---------------------------------------------------------------------- cells and summaries


def _means(found: Sequence[Found], *keys: str) -> list[str]:
    return [mean_sd([row[key] for row in found]) for key in keys]


_MERGE = ("asked", "before", "priced", "membership", "ward", "ours", "at most")


def _merge_cells(found: Sequence[Found]) -> list[str]:
    return _means(found, *_MERGE)


def _merge_summary(found: Sequence[Sequence[Found]]) -> list[str]:
    below = {
        way: [np.mean([row[way] - row["asked"] for row in rows]) for rows in found]
        for way in _MERGE[1:]
    }
    possible = sum(gap >= -0.02 for gap in below["at most"])
    text = ", ".join(f"{way} {np.mean(gaps):+.3f}" for way, gaps in below.items())
    near = sum(gap >= -0.02 for gap in below["ours"])
    return [
        f"In the mean beside asking for k: {text}.",
        f"Ours is within 2 points of asking for k, or above, on {near} of {len(found)} problems; "
        f"some cut might be on {possible}.",
    ]


def _is_near(row: Found) -> bool:
    return abs(row["k"] - row["true"]) <= _NEAR * row["true"]


def _is_inside(row: Found) -> bool:
    return row["low"] <= row["true"] <= row["high"]


def _most_common(found: Sequence[Found]) -> int:
    return max(Counter(row["k"] for row in found).values())


def _count_cells(found: Sequence[Found]) -> list[str]:
    return [
        f"{found[0]['true']:.0f}",
        ", ".join(f"{row['before']:.0f}" for row in found),
        ", ".join(f"{row['k']:.0f}" for row in found),
        ", ".join(f"{row['low']:.0f}-{row['high']:.0f}" for row in found),
        str(sum(map(_is_near, found))),
        str(sum(map(_is_inside, found))),
        str(_most_common(found)),
    ]


def _count_summary(found: Sequence[Sequence[Found]]) -> list[str]:
    fits = [row for rows in found for row in rows]
    near, inside = sum(map(_is_near, fits)), sum(map(_is_inside, fits))
    before = sum(_is_near({**row, "k": row["before"]}) for row in fits)
    steady = sum(_most_common(rows) >= 0.8 * len(rows) for rows in found)
    return [
        f"Near in {near} of {len(fits)} fits ({near / len(fits):.0%}), before in {before} "
        f"({before / len(fits):.0%}); in the interval in {inside} ({inside / len(fits):.0%}).",
        f"80 % of the seeds give the same number on {steady} of {len(found)} problems.",
    ]


_CONFIDENCE = ("purity", "confidence before", "confidence", "error before", "error")


def _confidence_cells(found: Sequence[Found]) -> list[str]:
    return _means(found, *_CONFIDENCE)


def _confidence_summary(found: Sequence[Sequence[Found]]) -> list[str]:
    small = sum(np.mean([row["error"] for row in rows]) <= 0.1 for rows in found)
    return [f"The error now is at most .10 on {small} of {len(found)} problems."]


def _outlier_cells(found: Sequence[Found]) -> list[str]:
    areas = [
        " ".join(f"{np.mean([row[f'{way} {kind}'] for row in found]):.3f}" for way in WAYS)
        for kind in ("foreign", "noise")
    ]
    return [*_means(found, "flagged before", "flagged", "foreign", "noise"), *areas]


def _outlier_summary(found: Sequence[Sequence[Found]]) -> list[str]:
    shares = [np.mean([row["flagged"] for row in rows]) for rows in found]
    good = sum(0.005 <= share <= 0.03 for share in shares)
    return [f"Fresh samples are flagged at 0.5 to 3 % on {good} of {len(found)} problems."]


class Part(NamedTuple):
    """One figure: how it is measured, on what, and its table."""

    caption: str
    measure: Callable[[NDArray[Any], NDArray[np.int64], int], Found]
    columns: Sequence[str]
    cells: Callable[[Sequence[Found]], list[str]]
    summary: Callable[[Sequence[Sequence[Found]]], list[str]]
    problems: Sequence[str]
    seeds: int
    notes: Sequence[str]


PARTS = {
    "merge": Part(
        "ACC of 2k clusters cut to k",
        measure_merge,
        ("problem", "asking for k", "before", "priced", "membership", "Ward", "ours", "at most"),
        _merge_cells,
        _merge_summary,
        FIVE,
        3,
        (
            "Mean ± sd. Before: coding length. Priced: the same, small clusters pay for no more "
            "directions than they have. Membership: average linkage of Γ. Ward: on the features. "
            "Ours: each merger costs the judge's score least. At most: each cluster goes to its "
            "main class, which no merging of whole clusters exceeds.",
        ),
    ),
    "count": Part(
        "n_clusters='auto'",
        measure_count,
        ("problem", "true k", "before", "now", "interval", "near", "inside", "same"),
        _count_cells,
        _count_summary,
        COUNTED,
        5,
        (
            "Before: gap of Γ at eta = .175, stability and coding length, after the same stage 1.",
            "Near: seeds within 10 % of the true k. Inside: seeds whose interval holds it. Same: "
            "seeds that agree.",
        ),
    ),
    "confidence": Part(
        "Expected calibration error against purity",
        measure_given,
        ("problem", "purity", "confidence before", "now", "error before", "now"),
        _confidence_cells,
        _confidence_summary,
        FIVE,
        3,
        ("Mean ± sd. Before: the probabilities of Γ. Now: with the temperature.",),
    ),
    "outliers": Part(
        "Outliers at a nominal 1 %",
        measure_outliers,
        ("problem", "fresh before", "fresh", "foreign", "noise", "AUROC foreign", "AUROC noise"),
        _outlier_cells,
        _outlier_summary,
        FIVE,
        3,
        (
            "Shares flagged, mean ± sd. Before: the subspace residual and a threshold of training "
            "scores.",
            f"AUROC of {', '.join(WAYS)}; all but the second see the same samples.",
        ),
    ),
}
