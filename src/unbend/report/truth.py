"""Comparison with true labels: scores, chance level and contingency table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import linear_sum_assignment
from sklearn.metrics.cluster import contingency_matrix

from unbend.metrics import chance_scores, clustering_scores

__all__ = ["compare_with_truth", "truth_from_metrics"]


def compare_with_truth(
    y: ArrayLike,
    labels: NDArray[np.int64],
    *,
    classes: Sequence[str] | None = None,
    split: str | None = None,
) -> dict[str, Any]:
    """Scores, chance and contingency table of a clustering, ready for ``metrics.json``.

    Returns
    -------
    dict
        ``scores`` and ``chance``: n, n_classes, n_clusters, acc, nmi, ami, ari; ``split``;
        ``classes``: names of the rows; ``clusters``: numbers of the columns; ``table``: counts;
        ``match``: for each cluster the row that it is matched with, or None (Hungarian).

    Examples
    --------
    >>> found = compare_with_truth([5, 5, 7], np.array([1, 1, 0]), classes=None)
    >>> found["table"], found["classes"], found["match"]
    ([[0, 2], [1, 0]], ['5', '7'], [1, 0])
    """
    true = np.asarray(y)
    table = contingency_matrix(true, labels)
    values = np.unique(true)
    named = classes is not None and true.dtype.kind in "iu"
    names = [
        str(classes[v]) if named and classes is not None and 0 <= v < len(classes) else str(v)
        for v in values.tolist()
    ]
    return {
        "scores": clustering_scores(true, labels).to_dict(),
        "chance": chance_scores(true, labels).to_dict(),
        "split": split,
        "classes": names,
        "clusters": np.unique(labels).tolist(),
        "table": table.tolist(),
        "match": _match(table),
    }


def _match(table: NDArray[Any]) -> list[int | None]:
    rows, columns = linear_sum_assignment(table, maximize=True)
    partner = dict(zip(columns.tolist(), rows.tolist(), strict=True))
    return [partner.get(c) for c in range(table.shape[1])]


def truth_from_metrics(metrics: Mapping[str, Any]) -> dict[str, Any] | None:
    """The scores in ``metrics.json`` of a run, and the contingency table if it has one.

    The table is stored under ``contingency``: ``classes``, ``clusters`` and ``table``.
    """
    scores = metrics.get("MLC", metrics.get("scores"))
    if not isinstance(scores, Mapping) or not {"n", "acc", "nmi", "ami", "ari"} <= set(scores):
        return None
    chance = metrics.get("chance")
    found: dict[str, Any] = {
        "scores": dict(scores),
        "chance": dict(chance) if isinstance(chance, Mapping) else None,
        "split": metrics.get("split"),
        "classes": None,
        "clusters": None,
        "table": None,
        "match": None,
    }
    written = metrics.get("contingency")
    if isinstance(written, Mapping):
        table = np.asarray(written["table"], dtype=np.int64)
        if table.ndim != 2 or len(written["classes"]) != len(table):
            raise ValueError(
                f"`contingency` of metrics.json must have a row per class, got {table.shape} for "
                f"{len(written['classes'])} classes; cluster again"
            )
        clusters = written.get("clusters", list(range(table.shape[1])))
        found |= {"classes": list(map(str, written["classes"])), "clusters": list(clusters)}
        found |= {"table": table.tolist(), "match": _match(table)}
    return found
