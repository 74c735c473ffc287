"""Labels to rely on: the merge tree, the number of clusters, confidence, outliers.

Every figure comes from whole fits of MLC on problems of the development list, beside what was done
before where that can still be computed. Fits are kept, so a run goes on where an earlier one
stopped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.ensemble import IsolationForest
from sklearn.metrics import roc_auc_score
from sklearn.neighbors import NearestNeighbors

from unbend.disk import hash_array
from unbend.disk.provenance import ESTIMATOR
from unbend.estimator import MLC
from unbend.experiments.memory import Arrays, remember
from unbend.experiments.problem import seeds_of
from unbend.experiments.runner import show_progress
from unbend.experiments.suite import synthetic
from unbend.experiments.suite.problems import load_problem
from unbend.labels.confidence import cool
from unbend.labels.hierarchy import cut_tree, merge_clusters
from unbend.labels.subspaces import second_moments, subspace_residuals
from unbend.metrics import clustering_accuracy, reliability
from unbend.metrics.tables import Table, file_name
from unbend.progress import Tick

__all__ = ["PARTS", "run"]

FIVE = ("digits", "cifar10-lite2-200", "surfaces-8", "subspaces-7", "subspaces-30x9")
UNIONS = (3, 4, 5, 7, 10, 12, 15, 20)
COUNTED = (
    *(f"union of {k}" for k in UNIONS),
    *("digits", "digits-images", "cifar10-lite2-200", "cifar10-lite2-60", "curves-10"),
    *("surfaces-8", "subspaces-30x9", "faces-under-light", "satellite", "vowel"),
)
_COLUMNS = ("figure", "problem", "before", "now", "beside")


def run(
    *,
    data: str | None = None,
    methods: str | None = None,
    seeds: int | None = None,
    out: Path | None = None,
    verbose: bool = True,
) -> Table:
    """Measure what the labels promise; about half a minute of a core for each fit.

    Parameters
    ----------
    data : str, optional
        Some problems of the development list, as in ``"digits,vowel"``, or ``"union of 7"``.
    methods : str, optional
        Some parts of ``merge,count,confidence,outliers``; by default all.
    seeds : int, optional
        How many; by default 3.
    out : path, optional
        Where the table goes.
    """
    parts = _words(methods) or list(PARTS)
    for part in parts:
        if part not in PARTS:
            raise ValueError(f"labels has no part {part!r}; known: {', '.join(PARTS)}")
    each = seeds_of(seeds, 3, 3, "small")
    jobs = [(part, name) for part in parts for name in _words(data) or PARTS[part].problems]
    rows = []
    with show_progress(verbose) as progress:
        for done, (part, name) in enumerate(jobs):
            X, y = _load(name)
            found = [PARTS[part].measure(X, y, seed) for seed in each]
            rows.append([part, f"{name}, n = {len(y)}", *PARTS[part].cells(found, y)])
            progress(Tick("labels", done + 1, len(jobs)))
    table = Table(
        f"Labels to rely on: development problems, mean ± sd over {len(each)} seeds",
        _COLUMNS,
        rows,
        notes=[PARTS[part].note for part in parts],
    )
    return table.saved(out, file_name("labels", data, methods))


def _words(text: str | None) -> list[str]:
    return [word.strip() for word in (text or "").split(",") if word.strip()]


def _load(name: str) -> tuple[NDArray[Any], NDArray[np.int64]]:
    if name.startswith("union of "):
        return synthetic.subspaces(int(name.removeprefix("union of ")))
    return load_problem("development", name)


def _kept(kind: str, X: NDArray[Any], y: NDArray[Any], seed: int, work: Callable[[], Any]) -> Any:
    """The numbers of ``work()``, or those of an earlier run of the same code."""
    key = [kind, hash_array(X), hash_array(y), seed]

    def compute() -> Arrays:
        return {name: np.asarray(value) for name, value in work().items()}

    arrays = remember("labels", key, compute, rooms=ESTIMATOR)
    return {name: float(value) for name, value in arrays.items()}


# ---------------------------------------------------------------------- the four parts


def _asked(X: NDArray[Any], y: NDArray[np.int64], seed: int) -> dict[str, float]:
    """A fit with the true k: its ACC, and the calibration without and with the temperature."""

    def work() -> dict[str, float]:
        model = MLC(len(np.unique(y)), random_state=seed).fit(X)
        p = model.predict_proba(X)
        raw = cool(p, 1 / model._label_model.temperature)
        old, new = (reliability(y, q.argmax(1), q.max(1)) for q in (raw, p))
        both = {"old": old["ece"], "new": new["ece"], "purity": new["purity"]}
        means = {"was": old["confidence"], "is": new["confidence"]}
        return {"asked": clustering_accuracy(y, model.labels_), **both, **means}

    found: dict[str, float] = _kept("asked", X, y, seed, work)
    return found


def _merge(X: NDArray[Any], y: NDArray[np.int64], seed: int) -> dict[str, float]:
    """ACC of 2k clusters cut to k, and of asking for k."""
    k = len(np.unique(y))

    def work() -> dict[str, float]:
        model = MLC(2 * k, random_state=seed).fit(X)
        Z, labels = torch.from_numpy(model.transform(X)).float(), torch.from_numpy(model.labels_)
        moments, eps_sq = second_moments(Z, labels, 2 * k), model.config_.stage2.eps_sq
        old = cut_tree(merge_clusters(*moments, eps_sq), k)
        return {
            "old": clustering_accuracy(y, old[model.labels_]),
            "new": clustering_accuracy(y, model.labels_at(k)),
        }

    return {"asked": _asked(X, y, seed)["asked"], **_kept("merge", X, y, seed, work)}


def _count(X: NDArray[Any], y: NDArray[np.int64], seed: int) -> dict[str, float]:
    """The number of clusters that is found, and its interval.

    It is decided before stage 2, which is therefore cut short.
    """

    def work() -> dict[str, float]:
        model = MLC(random_state=seed, epochs=1).fit(X)
        assert model.model_selection_ is not None
        low, high = model.model_selection_.interval
        return {"k": model.n_clusters_, "low": low, "high": high}

    found: dict[str, float] = _kept("count", X, y, seed, work)
    return found


def _outliers(X: NDArray[Any], y: NDArray[np.int64], seed: int) -> dict[str, float]:
    """Fit 70 % of all classes but the last fifth; score fresh samples, foreign classes, noise."""

    def work() -> dict[str, float]:
        rng = np.random.default_rng(100 + seed)
        classes = np.unique(y)
        known = np.isin(y, classes[: max(2, len(classes) - max(1, len(classes) // 5))])
        rows = rng.permutation(np.flatnonzero(known))
        cut = int(0.7 * len(rows))
        train, fresh, foreign = X[np.sort(rows[:cut])], X[rows[cut:]], X[~known]
        model = MLC(len(np.unique(y[known])), random_state=seed).fit(train)
        noise = rng.permuted(train, axis=0)[:500]
        return _outlier_scores(model, train, fresh, foreign, noise)

    found: dict[str, float] = _kept("outliers", X, y, seed, work)
    return found


def _outlier_scores(model: MLC, *sets: NDArray[Any]) -> dict[str, float]:
    """Flagged shares and areas under the curve; sets: fitted, fresh, foreign, noise."""
    Z = [model.transform(part) for part in sets]
    rows, labels = torch.from_numpy(Z[0]).float(), torch.from_numpy(model.labels_)
    k, eps_sq = model.n_clusters_, model.config_.stage2.eps_sq
    old = [
        subspace_residuals(torch.from_numpy(z).float(), rows, labels, k, eps_sq).numpy() for z in Z
    ]
    forest = IsolationForest(random_state=0).fit(Z[0])
    nearest = NearestNeighbors(n_neighbors=10).fit(Z[0])
    ways = {
        "new": [model.outlier_score(part) for part in sets],
        "old": old,
        "forest": [-forest.score_samples(z) for z in Z],
        "knn": [nearest.kneighbors(z)[0].mean(1) for z in Z],
    }
    found = {
        "new flagged": float(np.mean(ways["new"][1] > model.outlier_threshold_)),
        "old flagged": float(np.mean(old[1] > np.quantile(old[0], 0.99))),
        "noise caught": float(np.mean(ways["new"][3] > model.outlier_threshold_)),
    }
    for way, scores in ways.items():
        found |= {f"{way} foreign": _auc(*scores[1:3]), f"{way} noise": _auc(scores[1], scores[3])}
    return found


def _auc(inside: NDArray[np.float64], outside: NDArray[np.float64]) -> float:
    truth = np.repeat([0, 1], [len(inside), len(outside)])
    return float(roc_auc_score(truth, np.concatenate([inside, outside])))


# ---------------------------------------------------------------------- tables


def _cell(found: Sequence[dict[str, float]], key: str) -> str:
    values = np.array([row[key] for row in found])
    return f"{values.mean():.3f} ± {values.std():.3f}"


def _merge_cells(found: Sequence[dict[str, float]], y: NDArray[np.int64]) -> list[str]:
    return [_cell(found, "old"), _cell(found, "new"), f"asking for k: {_cell(found, 'asked')}"]


def _count_cells(found: Sequence[dict[str, float]], y: NDArray[np.int64]) -> list[str]:
    k = len(np.unique(y))
    chosen = ", ".join(f"{row['k']:.0f}" for row in found)
    open_ = ", ".join(f"{row['low']:.0f} to {row['high']:.0f}" for row in found)
    inside = sum(row["low"] <= k <= row["high"] for row in found)
    near = sum(abs(row["k"] - k) <= 0.1 * k for row in found)
    same = max(Counter(row["k"] for row in found).values())
    beside = f"true k {k}: near in {near}, in the interval in {inside}, the same in {same}"
    return ["not kept", chosen, f"{beside}; open: {open_}"]


def _confidence_cells(found: Sequence[dict[str, float]], y: NDArray[np.int64]) -> list[str]:
    means = {key: np.mean([row[key] for row in found]) for key in ("was", "is", "purity")}
    beside = f"purity {means['purity']:.3f}, confidence {means['was']:.3f}, now {means['is']:.3f}"
    return [_cell(found, "old"), _cell(found, "new"), beside]


def _outlier_cells(found: Sequence[dict[str, float]], y: NDArray[np.int64]) -> list[str]:
    def areas(kind: str) -> str:
        means = [np.mean([row[f"{way} {kind}"] for row in found]) for way in _WAYS]
        return f"{kind} " + " ".join(f"{mean:.3f}" for mean in means)

    before, now = _cell(found, "old flagged"), _cell(found, "new flagged")
    return [before, now, f"{areas('foreign')}; {areas('noise')}"]


_WAYS = ("new", "old", "forest", "knn")


class Part(NamedTuple):
    """One kind of figure."""

    measure: Callable[[NDArray[Any], NDArray[np.int64], int], dict[str, float]]
    cells: Callable[[Sequence[dict[str, float]], NDArray[np.int64]], list[str]]
    problems: Sequence[str]
    note: str


PARTS = {
    "merge": Part(
        _merge, _merge_cells, FIVE,
        "merge: ACC of 2k clusters cut to k, before by coding length, now by Ward's rule",
    ),
    "count": Part(
        _count, _count_cells, COUNTED,
        "count: n_clusters='auto', the number found by each seed; near is within 10 %",
    ),
    "confidence": Part(
        _asked, _confidence_cells, FIVE,
        "confidence: expected calibration error against purity, before without a temperature",
    ),
    "outliers": Part(
        _outliers, _outlier_cells, FIVE,
        "outliers: fresh samples flagged at a nominal 1 %, before by a threshold of training "
        "scores; AUROC of now, before, isolation forest, kNN distance (the last two on Z)",
    ),
}  # fmt: skip
