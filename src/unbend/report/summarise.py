"""From facts to one plain dict with every number and picture of the report."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unbend.estimator import MLC
from unbend.metrics import numerical_rank, reliability
from unbend.report.facts import Facts, facts_of_model
from unbend.report.map2d import lay_out, sample_by_cluster
from unbend.report.principal import principal_components
from unbend.report.truth import compare_with_truth

__all__ = ["summarise"]

_N_MAP = 20_000  # points of the map
_N_SIMILARITY = 480  # rows of the heat map
_N_LISTED = 36  # least certain samples, outliers
_N_THUMBNAILS = 6_000  # each takes about a kilobyte
_N_STEPS = 600  # points of a curve
_COMPONENTS = 8


def summarise(
    source: MLC | Facts, X: Any = None, *, n_map: int = _N_MAP, seed: int = 0, **options: Any
) -> dict[str, Any]:
    """Everything that a report shows, as a plain dict.

    Parameters
    ----------
    source : MLC or Facts
        A fitted model, or what :func:`facts_of_model` and :func:`facts_of_run` return.
    X : array, optional
        The samples that the model was fitted on.
    n_map : int
        Show at most this many samples on the map.
    seed : int
        Decides which samples are shown if not all of them are.
    **options
        With a model: ``images, names, y, classes, title, split, seconds, ...`` of
        :func:`facts_of_model`.

    Returns
    -------
    dict
        Numbers, strings, lists, dicts, and NumPy arrays where stated. A sample is referred to by
        its *slot*, its row in ``samples``.

        ``title, about``
            A string; and data, split, kind, encoder, n_trained, seed, seconds, version, settings.
        ``n, k, confidence``
            Counts, and the mean probability of the assigned cluster.
        ``choice``
            How k was chosen: ``how`` ("given" or "auto"), ``text``, and for "auto" ``interval``,
            ``rows`` and ``candidates``, see :class:`~unbend.labels.ModelSelection`.
        ``calibration``
            What was chosen from the data, see :func:`~unbend.report.facts.calibration_of`, or None.
        ``samples``
            Samples that are shown anywhere: ``index, name, cluster, probability,
            outlier_score, truth, thumbnail`` (−1 for none), ``x``, ``y`` (NaN off the map).
        ``clusters``
            Per cluster ``id, name, size, share, confidence, histogram`` (of the probability, ten
            bins), ``rank, n_outliers, examples, classes``, ``words`` and ``passages`` (of texts),
            ``principal`` (per component ``energy, slots, cosines``).
        ``similarity``
            ``matrix`` (uint8, 255 is |cos| = 1), ``bounds``, ``clusters``, ``n_shown``,
            ``within``, ``between``, ``blocks`` (k, k).
        ``spectrum``
            ``eigenvalues``, ``k``, ``gap``: λ_k − λ_{k+1}, or None.
        ``history``
            Per stage ``name, n_steps, step, R, R_c, delta_R`` and ``rank_step, rank``.
        ``map``
            ``slots``, ``n_shown``, ``method``.
        ``uncertain, outliers, outlier_threshold, n_outliers``
            Slots, worst first.
        ``tree``
            The linkage as lists, or None.
        ``truth``
            See :func:`compare_with_truth`, or None.
        ``reliability``
            See :func:`reliability`, or None without true labels.
        ``broken, n_broken, warnings``
            Up to 200 skipped files with the reason, the number of all, and the warnings of the run.
        ``thumbnails``
            uint8 (m, h, w, 3) or None; ``n_thumbnails`` of all samples had one.
    """
    if isinstance(source, Facts):
        if X is not None or options:
            raise TypeError("`summarise` takes X and options with a model only, not with Facts")
        facts = source
    else:
        facts = facts_of_model(source, X, **options)
    return _Summary(facts, n_map, seed).build()


class _Summary:
    def __init__(self, facts: Facts, n_map: int, seed: int) -> None:
        self.facts, self.seed = facts, seed
        self.n, self.k = len(facts.labels), facts.n_clusters
        self.members = _split(facts.labels, self.k)
        self.Z = None if facts.features is None else np.asarray(facts.features, np.float32)
        self.on_map = sample_by_cluster(facts.labels, n_map, seed=seed)

    def build(self) -> dict[str, Any]:
        facts = self.facts
        truth = self._truth()
        clusters = [self._cluster(q) for q in range(self.k)]
        uncertain, outliers = (
            self._worst(facts.probability, -1),
            self._worst(facts.outlier_score, 1),
        )
        slots = self._slots(clusters, uncertain, outliers)
        about = dict(facts.about)
        p = facts.probability
        return {
            "title": str(about.pop("title", None) or about.get("data") or "Clusters"),
            "about": about,
            "n": self.n,
            "k": self.k,
            "n_counted": facts.n_counted,
            "by_size": all(a["size"] >= b["size"] for a, b in pairwise(clusters)),
            "confidence": None if p is None else float(np.mean(p)),
            "choice": _choice(facts, self.k),
            "calibration": facts.calibration and dict(facts.calibration),
            "samples": self._samples(slots),
            "clusters": [_in_slots(cluster, slots) for cluster in clusters],
            "similarity": self._similarity(),
            "spectrum": _spectrum(facts.eigenvalues, self.k),
            "history": _history(facts.history),
            "map": None
            if self.Z is None
            else {
                "slots": slots[self.on_map].tolist(),
                "n_shown": len(self.on_map),
                "method": "t-SNE of cos², landmarks",
            },
            "uncertain": slots[uncertain].tolist(),
            "outliers": slots[outliers].tolist(),
            "outlier_threshold": facts.outlier_threshold,
            "n_outliers": sum(c["n_outliers"] or 0 for c in clusters),
            "tree": None if facts.merge_tree is None else facts.merge_tree.tolist(),
            "truth": truth,
            "reliability": self._reliability(),
            "broken": [{"path": str(p), "reason": str(r)} for p, r in facts.broken[:200]],
            "n_broken": len(facts.broken),
            "warnings": [str(w) for w in facts.warnings],
            **self._pictures(),
        }

    # ------------------------------------------------------------------ clusters

    def _cluster(self, q: int) -> dict[str, Any]:
        rows, facts = self.members[q], self.facts
        p, s = facts.probability, facts.outlier_score
        threshold = facts.outlier_threshold
        sure = rows if p is None else rows[np.argsort(-p[rows], kind="stable")]
        found: dict[str, Any] = {
            "id": q,
            "tag": facts.cluster_number(q),
            "name": facts.cluster_name(q),
            "size": len(rows),
            "share": len(rows) / self.n,
            "confidence": None if p is None or not len(rows) else float(p[rows].mean()),
            "histogram": None if p is None else np.histogram(p[rows], 10, (0, 1))[0].tolist(),
            "rank": None,
            "n_outliers": None
            if s is None or threshold is None
            else int((s[rows] > threshold).sum()),
            "examples": self._examples(sure),
            "classes": self._classes(rows),
            "principal": [],
            "words": self._words(q),
            "passages": self._passages(sure),
        }
        if self.Z is not None and len(rows):
            found["rank"] = numerical_rank(self.Z[rows])
            found["principal"] = self._principal(rows)
        return found

    def _words(self, q: int) -> list[str]:
        words = self.facts.words
        return list(words[q]) if words is not None and q < len(words) else []

    def _passages(self, sure: NDArray[np.int64], count: int = 8) -> list[dict[str, str]]:
        """Typical texts: the most certain ones that are known."""
        known, names = self.facts.passages or {}, self.facts.names
        rows = [i for i in sure.tolist() if i in known][:count]
        return [{"name": str(names[i]), "text": known[i]} for i in rows]

    def _examples(self, sure: NDArray[np.int64], count: int = 24) -> NDArray[np.int64]:
        """Members spread evenly over the more confident half: typical, but not all alike."""
        if self.facts.thumbnail_index is not None:
            pictured = sure[np.isin(sure, self.facts.thumbnail_index)]
            sure = pictured if len(pictured) else sure
        upper = sure[: max(count, len(sure) // 2)]
        picks = np.linspace(0, len(upper) - 1, min(count, len(upper))).round().astype(int)
        return np.asarray(upper[picks])

    def _classes(self, rows: NDArray[np.int64]) -> list[dict[str, Any]]:
        """The three most frequent true classes of a cluster."""
        y, names = self.facts.y, self.facts.classes
        if y is None or not len(rows):
            return []
        values, counts = np.unique(y[rows], return_counts=True)
        order = np.argsort(-counts, kind="stable")[:3]
        return [
            {"name": _class_name(values[i], names), "share": float(counts[i] / len(rows))}
            for i in order
        ]

    def _principal(self, rows: NDArray[np.int64]) -> list[dict[str, Any]]:
        assert self.Z is not None
        # With very many clusters the file would grow too large: show fewer in a row.
        columns = min(_COMPONENTS, max(3, _N_THUMBNAILS // (_COMPONENTS * self.k)))
        pictured = self.facts.thumbnail_index
        components = principal_components(self.Z[rows], _COMPONENTS, len(rows))
        found = []
        for component in components:
            members, cosines = rows[component.members], component.cosines
            if pictured is not None:
                seen = np.isin(members, pictured)
                members, cosines = members[seen], cosines[seen]
            found.append(
                {
                    "energy": component.energy,
                    "slots": members[:columns],
                    "cosines": [round(float(c), 3) for c in cosines[:columns]],
                }
            )
        return found

    def _worst(self, values: NDArray[np.float64] | None, sign: int) -> NDArray[np.int64]:
        if values is None:
            return np.array([], dtype=np.int64)
        return np.argsort(-sign * values, kind="stable")[:_N_LISTED]

    # ------------------------------------------------------------------ samples, pictures

    def _slots(self, clusters: list[dict[str, Any]], *more: NDArray[np.int64]) -> NDArray[np.int64]:
        """The row of each sample in ``samples``, −1 for samples that are not shown."""
        parts = [c["examples"] for c in clusters]
        parts += [row["slots"] for c in clusters for row in c["principal"]]
        important = _unique([*more, *parts])
        self.shown = np.union1d(important, self.on_map).astype(np.int64)
        slots = np.full(self.n, -1, dtype=np.int64)
        slots[self.shown] = np.arange(len(self.shown))
        self.pictured = self._choose_pictures(important)
        return slots

    def _choose_pictures(self, important: NDArray[np.int64]) -> NDArray[np.int64]:
        index = self.facts.thumbnail_index
        if index is None:
            return np.array([], dtype=np.int64)
        rest = np.setdiff1d(np.intersect1d(self.shown, index), important)
        rest = np.random.default_rng(self.seed).permutation(rest)
        return np.concatenate([important[np.isin(important, index)], rest])[:_N_THUMBNAILS]

    def _samples(self, slots: NDArray[np.int64]) -> dict[str, Any]:
        facts, shown = self.facts, self.shown
        tile = np.full(self.n, -1, dtype=np.int64)
        tile[self.pictured] = np.arange(len(self.pictured))
        x = np.full((len(shown), 2), np.nan)
        if self.Z is not None:
            x[slots[self.on_map]] = lay_out(self.Z[self.on_map], seed=self.seed)
        y = facts.y
        return {
            "index": shown.tolist(),
            "name": [str(facts.names[i]) for i in shown.tolist()],
            "cluster": facts.labels[shown].tolist(),
            "probability": _take(facts.probability, shown),
            "outlier_score": _take(facts.outlier_score, shown),
            "truth": None if y is None else [_class_name(v, facts.classes) for v in y[shown]],
            "thumbnail": tile[shown].tolist(),
            "x": x[:, 0].tolist(),
            "y": x[:, 1].tolist(),
        }

    def _pictures(self) -> dict[str, Any]:
        facts = self.facts
        if facts.thumbnails is None or facts.thumbnail_index is None or not len(self.pictured):
            return {"thumbnails": None, "n_thumbnails": 0}
        order = np.argsort(facts.thumbnail_index, kind="stable")
        rows = order[np.searchsorted(facts.thumbnail_index[order], self.pictured)]
        return {"thumbnails": facts.thumbnails[rows], "n_thumbnails": len(facts.thumbnail_index)}

    # ------------------------------------------------------------------ features

    def _similarity(self) -> dict[str, Any] | None:
        """|Z Zᵀ| of a sample of rows ordered by cluster (the paper's cosine-similarity figure)."""
        if self.Z is None:
            return None
        rows = sample_by_cluster(self.facts.labels, _N_SIMILARITY, seed=self.seed + 1, least=2)
        labels = self.facts.labels[rows]
        order = np.argsort(labels, kind="stable")
        rows, labels = rows[order], labels[order]
        Z = self.Z[rows].astype(np.float64)
        Z /= np.maximum(np.linalg.norm(Z, axis=1, keepdims=True), 1e-12)
        cosine = np.abs(Z @ Z.T).clip(0, 1)
        seen, starts = np.unique(labels, return_index=True)
        same = labels[:, None] == labels[None]
        off = ~np.eye(len(rows), dtype=bool)
        indicator = (labels[:, None] == seen[None]).astype(np.float64)
        pairs = indicator.T @ off @ indicator
        sums = indicator.T @ (cosine * off) @ indicator
        return {
            "matrix": (cosine * 255).round().astype(np.uint8),
            "bounds": [*starts.tolist(), len(rows)],
            "clusters": seen.tolist(),
            "n_shown": len(rows),
            "within": _mean(cosine[same & off]),
            "between": _mean(cosine[~same]),
            "blocks": (sums / np.maximum(pairs, 1)).round(3).tolist(),
        }

    def _truth(self) -> dict[str, Any] | None:
        facts = self.facts
        if facts.y is not None and not facts.about.get("n_noise"):
            split = facts.about.get("split")
            return compare_with_truth(facts.y, facts.labels, classes=facts.classes, split=split)
        return None if facts.truth is None else dict(facts.truth)

    def _reliability(self) -> dict[str, Any] | None:
        facts = self.facts
        if facts.y is None or facts.probability is None:
            return None
        return reliability(facts.y, facts.labels, facts.probability)


def _split(labels: NDArray[np.int64], k: int) -> list[NDArray[np.int64]]:
    order = np.argsort(labels, kind="stable")
    return np.split(order, np.searchsorted(labels[order], np.arange(1, k)))


def _unique(parts: Iterable[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Unique values in order of first appearance."""
    whole = np.concatenate([*parts, np.array([], dtype=np.int64)])
    _, first = np.unique(whole, return_index=True)
    return whole[np.sort(first)].astype(np.int64)


def _in_slots(cluster: dict[str, Any], slots: NDArray[np.int64]) -> dict[str, Any]:
    principal = [{**row, "slots": slots[row["slots"]].tolist()} for row in cluster["principal"]]
    return {**cluster, "examples": slots[cluster["examples"]].tolist(), "principal": principal}


def _class_name(value: Any, names: Sequence[str] | None) -> str:
    known = names is not None and isinstance(value, np.integer) and 0 <= value < len(names)
    return str(names[value]) if known and names is not None else str(value)


def _take(values: NDArray[np.float64] | None, rows: NDArray[np.int64]) -> list[float] | None:
    return None if values is None else [float(v) for v in values[rows]]


def _mean(values: NDArray[np.float64]) -> float | None:
    return float(values.mean()) if values.size else None


def _choice(facts: Facts, k: int) -> dict[str, Any]:
    selection = facts.selection
    if selection is None:
        return {"how": "given", "text": "the number of clusters was given", "interval": None}
    low, high = selection.interval
    span = "" if low == high else f" ({low} to {high} are plausible)"
    return {
        "how": "auto",
        "text": f"the number of clusters was found: {selection.reason}{span}",
        "interval": [low, high],
        "rows": selection.rows(),
        "candidates": selection.candidates,
        "chosen": k,
    }


def _spectrum(values: NDArray[np.float64] | None, k: int) -> dict[str, Any] | None:
    if values is None or len(values) < 2:
        return None
    found = [float(v) for v in values[: max(2 * k + 5, 30)]]
    gap = found[k - 1] - found[k] if len(found) > k else None
    return {"eigenvalues": found, "k": k, "gap": gap}


def _history(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """One dict per stage; long curves are thinned but keep their first and last step."""
    stages: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        stages.setdefault(str(row.get("stage")), []).append(row)
    found = []
    for name, steps in stages.items():
        keep = np.unique(np.linspace(0, len(steps) - 1, min(len(steps), _N_STEPS)).astype(int))
        thin = [steps[i] for i in keep]
        stage: dict[str, Any] = {"name": name, "n_steps": len(steps)}
        stage["step"] = [int(row["step"]) for row in thin]
        for key in ("R", "R_c", "delta_R"):
            values = [row.get(key) for row in thin]
            known = all(isinstance(v, (int, float)) and np.isfinite(v) for v in values)
            stage[key] = [float(v) for v in values if v is not None] if known else None
        ranked = [row for row in steps if row.get("rank") is not None]
        stage["rank_step"] = [int(row["step"]) for row in ranked]
        stage["rank"] = [int(row["rank"]) for row in ranked]
        found.append(stage)
    return found
