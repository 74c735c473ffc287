"""The input of a report: plain arrays, from a fitted model or from a run directory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unbend.config import Config
from unbend.estimator import MLC
from unbend.labels import ModelSelection
from unbend.report.sprites import make_thumbnails
from unbend.report.truth import compare_with_truth
from unbend.samples import NeighborChoice

__all__ = ["Facts", "calibration_of", "facts_of_model", "without_noise"]


@dataclass(frozen=True)
class Facts:
    """Everything known about a clustering; unknown fields stay None or empty.

    Attributes
    ----------
    labels : ndarray of shape (n,)
        Cluster of each sample, 0 … k − 1.
    names : sequence of str
        One per sample.
    probability, outlier_score : ndarray of shape (n,), optional
        Probability of the assigned cluster; how far a sample is from all others.
    outlier_threshold : float, optional
        Samples with a higher score are called outliers; about 1 % of new samples have one.
    features : ndarray of shape (n, d), optional
        Z, on the unit sphere.
    eigenvalues, merge_tree : ndarray, optional
        Leading spectrum of Γ; a SciPy linkage of the clusters.
    selection : ModelSelection, optional
        How the number of clusters was chosen.
    calibration : dict, optional
        What was chosen from the data, see :func:`calibration_of`.
    history : list of dict
        A row per training step.
    thumbnails, thumbnail_index : ndarray, optional
        Small pictures (m, h, w, 3), uint8, and the samples that they show.
    words : list of list of str, optional
        Of texts: the top words of each cluster.
    passages : dict, optional
        Of texts: the beginning of some samples, by their number.
    y : ndarray of shape (n,), optional
        True labels as numbers.
    truth : dict, optional
        Used without ``y``: only ``scores``, ``chance``, ``classes`` and ``table``.
    classes : sequence of str, optional
        Names of the true labels.
    cluster_numbers : sequence of int, optional
        The numbers that people see, where they have gaps; -1 is noise, which is not counted.
    cluster_names : sequence of str, optional
        What people call the clusters; by default "Cluster 0", "Cluster 1", ...
    about : dict
        ``title, data, split, kind, encoder, n_trained, n_noise, seed, seconds, version,
        settings``, all optional.
    broken : list of (str, str)
        Files that were skipped, and why.
    warnings : list of str
    """

    labels: NDArray[np.int64]
    names: Sequence[str]
    probability: NDArray[np.float64] | None = None
    outlier_score: NDArray[np.float64] | None = None
    outlier_threshold: float | None = None
    features: NDArray[np.floating] | None = None
    eigenvalues: NDArray[np.float64] | None = None
    merge_tree: NDArray[np.float64] | None = None
    selection: ModelSelection | None = None
    calibration: Mapping[str, Any] | None = None
    history: Sequence[Mapping[str, Any]] = ()
    thumbnails: NDArray[np.uint8] | None = None
    thumbnail_index: NDArray[np.int64] | None = None
    words: Sequence[Sequence[str]] | None = None
    passages: Mapping[int, str] | None = None
    y: NDArray[np.int64] | None = None
    truth: Mapping[str, Any] | None = None
    classes: Sequence[str] | None = None
    cluster_names: Sequence[str] | None = None
    cluster_numbers: Sequence[int] | None = None
    about: Mapping[str, Any] = field(default_factory=dict)
    broken: Sequence[tuple[str, str]] = ()
    warnings: Sequence[str] = ()

    def __post_init__(self) -> None:
        n = len(self.labels)
        if n == 0:
            raise ValueError("a report needs at least one sample, got none")
        for name in ("names", "probability", "outlier_score", "features", "y"):
            value = getattr(self, name)
            if value is not None and len(value) != n:
                raise ValueError(
                    f"`{name}` of the report must have one entry per sample, got {len(value)} "
                    f"for {n} samples"
                )
        if (self.thumbnails is None) != (self.thumbnail_index is None):
            raise ValueError(
                "`thumbnails` and `thumbnail_index` of the report belong together; give both"
            )
        if self.thumbnails is not None and self.thumbnail_index is not None:
            _check_thumbnails(self.thumbnails, self.thumbnail_index, n)

    @property
    def n_clusters(self) -> int:
        """k, including clusters without members."""
        tree = 0 if self.merge_tree is None else len(self.merge_tree) + 1
        return max(int(self.labels.max()) + 1, tree)

    def cluster_number(self, q: int) -> int:
        """The number that people see of cluster q."""
        return q if self.cluster_numbers is None else int(self.cluster_numbers[q])

    @property
    def n_counted(self) -> int:
        """k without noise, if that is on the page as a group of its own."""
        return self.n_clusters - (-1 in (self.cluster_numbers or ()))

    def cluster_name(self, q: int) -> str:
        """What people call cluster q."""
        named = self.cluster_names is not None and q < len(self.cluster_names)
        return str(self.cluster_names[q]) if named and self.cluster_names else f"Cluster {q}"


def without_noise(fields: dict[str, Any]) -> dict[str, Any]:
    """Fields of :class:`Facts` without the samples whose label is -1, which are in no cluster.

    ``about["n_noise"]`` says how many there were.
    """
    kept = np.asarray(fields["labels"]) >= 0
    if kept.all():
        return fields
    fields = dict(fields)
    if fields.get("y") is not None:  # scores are those of all samples, as the command prints them
        about = fields.get("about", {})
        fields["truth"] = compare_with_truth(
            fields["y"], fields["labels"], classes=fields.get("classes"), split=about.get("split")
        )
    for name in ("labels", "probability", "outlier_score", "features", "y"):
        if fields.get(name) is not None:
            fields[name] = np.asarray(fields[name])[kept]
    fields["names"] = [fields["names"][i] for i in np.flatnonzero(kept)]
    index = fields.get("thumbnail_index")
    if index is not None:
        fields["thumbnails"] = fields["thumbnails"][kept[index]]
        fields["thumbnail_index"] = (np.cumsum(kept) - 1)[index[kept[index]]]
    fields["about"] = {**fields.get("about", {}), "n_noise": int((~kept).sum())}
    return fields


def _check_thumbnails(thumbnails: NDArray[Any], index: NDArray[Any], n: int) -> None:
    if thumbnails.dtype != np.uint8 or thumbnails.ndim != 4 or thumbnails.shape[-1] != 3:
        raise ValueError(
            f"`thumbnails` of the report must be uint8 (m, h, w, 3), got {thumbnails.dtype} "
            f"{thumbnails.shape}"
        )
    if len(index) != len(thumbnails) or (len(index) and not 0 <= min(index) <= max(index) < n):
        raise ValueError(
            f"`thumbnail_index` of the report must name a sample below {n} for each of the "
            f"{len(thumbnails)} thumbnails"
        )


def calibration_of(
    config: Config, neighbors: NeighborChoice, labelling: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """What a run chose from the data, and what it chose among.

    ``reason`` and ``metrics`` (name and score, the chosen one first) of the neighbours, ``eta``,
    ``dim``, and ``labelling``, the table of labellings, the chosen one first.
    """
    used = config.views.n_neighbors > 0
    others = sorted(neighbors.scores.items(), key=lambda m: (m[0] != neighbors.metric, -m[1]))
    return {
        "reason": neighbors.reason() if used else "no neighbours as views",
        "metrics": [{"name": name, "score": score} for name, score in others],
        "eta": config.stage2.eta,
        "dim": config.network.dim,
        "labelling": [dict(row) for row in labelling],
    }


def facts_of_model(
    model: MLC,
    X: Any,
    *,
    images: NDArray[Any] | None = None,
    names: Sequence[str] | None = None,
    y: Any = None,
    classes: Sequence[str] | None = None,
    broken: Sequence[tuple[str, str]] = (),
    warnings: Sequence[str] = (),
    noise: bool = False,
    **about: Any,
) -> Facts:
    """Facts of a fitted model and of the samples it was fitted on.

    For a model of embeddings, ``images`` are the pictures to show. ``noise`` keeps the samples
    whose label is -1. ``about`` takes ``title``, ``data``, ``split``, ``seed`` and ``seconds``.
    """
    from unbend import __version__

    shape = np.shape(X)
    if shape[0] != len(model.labels_):
        raise ValueError(
            f"`X` of the report must be the {len(model.labels_)} samples of fit, got {shape[0]}"
        )
    pictures = images if images is not None else np.asarray(X) if len(shape) > 2 else None
    thumbnails, index = (None, None)
    if pictures is not None:
        thumbnails, index = make_thumbnails(pictures, labels=model.labels_)
    seed = model.random_state
    found = model.assess_fitted() if model.holds_fit_output else model.assess(X)
    known: dict[str, Any] = {
        "version": __version__,
        "kind": "images" if pictures is not None else "vectors",
    }
    known |= {"seed": int(seed)} if isinstance(seed, (int, np.integer)) else {}
    fields: dict[str, Any] = {
        "labels": model.labels_,
        "names": [str(i) for i in range(shape[0])] if names is None else names,
        "probability": found.probabilities.max(axis=1),
        "outlier_score": found.outlier_score,
        "outlier_threshold": model.outlier_threshold_,
        "features": found.Z,
        "eigenvalues": model.eigenvalues_,
        "merge_tree": model.merge_tree_,
        "selection": model.model_selection_,
        "calibration": calibration_of(model.config_, model.neighbors_, model.labelling_),
        "history": model.history_,
        "thumbnails": thumbnails,
        "thumbnail_index": index,
        "y": None if y is None else np.asarray(y),
        "classes": classes,
        "about": {**known, "settings": model.config_.to_dict(), **about},
        "broken": broken,
        "warnings": warnings,
    }
    return Facts(**(fields if noise else without_noise(fields)))
