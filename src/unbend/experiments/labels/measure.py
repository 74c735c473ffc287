"""The four measurements of a problem and a seed, each from fits of MLC."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.ensemble import IsolationForest
from sklearn.metrics import roc_auc_score
from sklearn.neighbors import NearestNeighbors

from unbend.disk import hash_array
from unbend.disk.provenance import ESTIMATOR
from unbend.estimator import MLC
from unbend.experiments.labels.former import (
    former_number,
    membership_tree,
    merge_by_priced_length,
)
from unbend.experiments.memory import Arrays, remember
from unbend.labels.confidence import cool
from unbend.labels.hierarchy import cut_tree, merge_clusters, ward_tree
from unbend.labels.subspaces import second_moments, subspace_residuals
from unbend.metrics import clustering_accuracy, reliability

__all__ = ["WAYS", "Found", "measure_count", "measure_given", "measure_merge", "measure_outliers"]

Found = dict[str, float]
WAYS = ("ours", "before", "isolation forest", "10-NN distance")


def _kept(
    kind: str, X: NDArray[Any], y: NDArray[Any], seed: int, work: Callable[[], Found]
) -> Found:
    """The numbers of ``work()``, or those of an earlier run of the same code."""
    key = [kind, hash_array(X), hash_array(y), seed]

    def compute() -> Arrays:
        return {name: np.asarray(value) for name, value in work().items()}

    arrays = remember("labels", key, compute, rooms=ESTIMATOR)
    return {name: float(value) for name, value in arrays.items()}


def measure_given(X: NDArray[Any], y: NDArray[np.int64], seed: int) -> Found:
    """A fit with the true k: its ACC, and the calibration without and with the temperature."""

    def work() -> Found:
        model = MLC(len(np.unique(y)), random_state=seed).fit(X)
        p = model.predict_proba(X)
        raw = cool(p, 1 / model._label_model.temperature)
        before, now = (reliability(y, q.argmax(1), q.max(1)) for q in (raw, p))
        return {
            "asked": clustering_accuracy(y, model.labels_),
            "purity": now["purity"],
            "error before": before["ece"],
            "error": now["ece"],
            "confidence before": before["confidence"],
            "confidence": now["confidence"],
        }

    return _kept("given k", X, y, seed, work)


def measure_merge(X: NDArray[Any], y: NDArray[np.int64], seed: int) -> Found:
    """ACC of 2k clusters cut to k in several ways, and of asking for k."""
    k = len(np.unique(y))

    def work() -> Found:
        model = MLC(2 * k, random_state=seed).fit(X)
        labels, eps_sq = model.labels_, model.config_.stage2.eps_sq
        raw = cool(model.predict_proba(X), 1 / model._label_model.temperature)
        # The features of the state that was kept, which are those of stage 1 or near them.
        Z = torch.from_numpy(model.transform(X)).float()
        parts = second_moments(Z, torch.from_numpy(labels), 2 * k)
        groups = {
            "before": cut_tree(merge_clusters(*parts, eps_sq), k),
            "priced": merge_by_priced_length(*parts, eps_sq, k),
            "membership": cut_tree(membership_tree(raw, labels, 2 * k), k),
            "ward": cut_tree(ward_tree(Z, torch.from_numpy(labels), 2 * k), k),
            "ours": cut_tree(model.merge_tree_, k),
        }
        found = {way: clustering_accuracy(y, group[labels]) for way, group in groups.items()}
        # No way to merge whole clusters has a higher ACC than joining those of one main class.
        table = np.zeros((2 * k, k))
        np.add.at(table, (labels, np.unique(y, return_inverse=True)[1]), 1)
        return {**found, "at most": float(table.max(axis=1).sum() / len(y))}

    return {"asked": measure_given(X, y, seed)["asked"], **_kept("merge", X, y, seed, work)}


def measure_count(X: NDArray[Any], y: NDArray[np.int64], seed: int) -> Found:
    """The number of clusters that is found, its interval, and the number by the former rule.

    It is decided before stage 2, which is therefore left out.
    """

    def work() -> Found:
        model = MLC(random_state=seed, epochs=0).fit(X)
        selection, (output, _) = model.model_selection_, model._fit_output
        assert selection is not None
        low, high = selection.interval
        before = former_number(output.C, output.Z)
        return {"k": model.n_clusters_, "low": low, "high": high, "before": before}

    return _kept("count", X, y, seed, work)


def measure_outliers(X: NDArray[Any], y: NDArray[np.int64], seed: int) -> Found:
    """Fit 70 % of all classes but the last fifth; score fresh samples, foreign classes, noise."""

    def work() -> Found:
        rng = np.random.default_rng(100 + seed)
        classes = np.unique(y)
        known = np.isin(y, classes[: max(2, len(classes) - max(1, len(classes) // 5))])
        rows = rng.permutation(np.flatnonzero(known))
        cut = int(0.7 * len(rows))
        train, fresh, foreign = X[np.sort(rows[:cut])], X[rows[cut:]], X[~known]
        model = MLC(len(np.unique(y[known])), random_state=seed).fit(train)
        noise = rng.permuted(train, axis=0)[:500]
        return _score_outliers(model, train, fresh, foreign, noise)

    return _kept("outliers", X, y, seed, work)


def _score_outliers(model: MLC, *sets: NDArray[Any]) -> Found:
    """Flagged shares and areas under the curve; sets: fitted, fresh, foreign, noise."""
    # What our score sees: the samples in the metric of the neighbours.
    rows = [model._surroundings.place(model._scaled(part)[0]).numpy() for part in sets]
    forest = IsolationForest(random_state=0).fit(rows[0])
    nearest = NearestNeighbors(n_neighbors=10).fit(rows[0])
    Z = [torch.from_numpy(model.transform(part)).float() for part in sets]
    labels, eps_sq = torch.from_numpy(model.labels_), model.config_.stage2.eps_sq
    before = [
        subspace_residuals(part, Z[0], labels, model.n_clusters_, eps_sq).numpy() for part in Z
    ]
    scores = dict(
        zip(
            WAYS,
            (
                [model.outlier_score(part) for part in sets],
                before,
                [-forest.score_samples(part) for part in rows],
                [nearest.kneighbors(part)[0].mean(1) for part in rows],
            ),
            strict=True,
        )
    )
    found = {"flagged before": float(np.mean(before[1] > np.quantile(before[0], 0.99)))}
    for name, own in zip(("flagged", "foreign", "noise"), scores["ours"][1:], strict=True):
        found[name] = float(np.mean(own > model.outlier_threshold_))
    for way, (_, inside, foreign, noise) in scores.items():
        found |= {f"{way} foreign": _area(inside, foreign), f"{way} noise": _area(inside, noise)}
    return found


def _area(inside: NDArray[np.float64], outside: NDArray[np.float64]) -> float:
    truth = np.repeat([0, 1], [len(inside), len(outside)])
    return float(roc_auc_score(truth, np.concatenate([inside, outside])))
