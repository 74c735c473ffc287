r"""Choose the metric of the nearest neighbours from the data, without labels.

The symmetrised neighbour graph with adjacency A and degrees D has the normalised adjacency
:math:`D^{-1/2} A D^{-1/2}` with eigenvalues λ_1 ≥ λ_2 ≥ ... No cut of the graph into k parts has a
smaller normalised cut than :math:`\sum_{i ≤ k} (1 - λ_i)`. The metric with the largest mean of
λ_1, ..., λ_k therefore separates k groups best. The mean is 1 when the graph has k components.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from unbend.knobs import RIDGE
from unbend.progress import Progress, Tick, silent
from unbend.samples.directions import varying_columns
from unbend.samples.graph import graph_spectrum
from unbend.samples.neighbors import nearest_neighbors, neighbors_by
from unbend.samples.reach import lasting_parts, median_reach, within_reach
from unbend.samples.views import GRAPH_NEIGHBORS

__all__ = ["METRICS", "NeighborChoice", "choose_metric", "near_parts"]

# Ridge weights are multiples of n, because the eigenvalues of XᵀX grow with n.
METRICS = (
    "euclidean",
    "cosine",
    "standardized",
    *(f"{RIDGE}{w:g}" for w in (3e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1)),
)
_PILOT = 2000  # rows in the sample; more rows rank the metrics the same way
_PER_CLUSTER = 12  # ... but at least this many per cluster, up to
_PILOT_MAX = 4000
_JUDGED_BY = 5  # neighbours, as many as the views take
# In many dimensions the tenth neighbour is little farther than the second. On thin manifolds it is
# so many times as far; then all rows are looked at, up to so many.
_SPREAD, _ALL_ROWS = 1.5, 20_000
# Of the cut that the best plain metric leaves: ridge neighbours must leave less. They whiten what
# the network sees, and the best of eight weights comes close to a better metric by chance.
_RIDGE_LEAVES = 0.9
_TIE = 1e-4  # scores that differ less are equal: the eigenvalues have a tolerance
# Varying columns below which directions are not compared, neither angles nor ridge neighbours: they
# ignore length, and graphs in few dimensions are easy to cut even without groups.
_ENOUGH_FOR_DIRECTIONS = 8
# Of the variance: a column in a unit of its own. One of two columns often has much of it, because
# groups are long.
_DOMINATES, _DOMINATES_ONE = 0.9, 0.999
_UNKNOWN_K = (2, 3, 5, 8, 12, 20, 30, 50)  # k to average over when it is not known
# Ridge neighbours lead at the true number of subspaces, but not in the mean over k. A lead at two
# or three parts, or where hardly a link is cut, comes by chance.
_FEWEST_UNKNOWN, _OPEN = 5, 0.01


@dataclass(frozen=True)
class NeighborChoice:
    """The metric of the neighbours, and the mean of λ_1 to λ_k of every candidate.

    ``ridge_leaves`` is what the best ridge neighbours leave to cut, as a share of what the best
    others leave; for unknown k the smallest such share over several k. ``parts`` is the number of
    clusters, or for unknown k the number of parts that the samples fall into, if near neighbours
    alone show them, see :func:`~unbend.samples.within_reach`; otherwise 0.
    """

    metric: str
    scores: Mapping[str, float]
    ridge_leaves: float = 1.0
    parts: int = 0

    @property
    def cut(self) -> float:
        """What the chosen graph leaves to cut, as a share of a cluster's links."""
        return 1 - self.scores[self.metric]

    def reason(self) -> str:
        """One sentence that explains the choice to the user."""
        others = sorted(((s, m) for m, s in self.scores.items() if m != self.metric), reverse=True)
        if not self.scores:
            near = "near neighbours alone, far ones would tie groups together; "
            return f"{near * bool(self.parts)}neighbours by {self.metric}, as asked"
        if not others:
            return f"neighbours by {self.metric}: one column has almost all the variance"
        own, (next_score, next_metric) = self.scores[self.metric], others[0]
        if self.parts:
            return (
                f"near neighbours by {self.metric}: they alone take groups apart, and far ones "
                f"would tie them together (score {own:.3f})"
            )
        if self.metric.startswith(RIDGE) and next_score > own:
            return (
                f"neighbours by {self.metric}: at one number of groups their graph separates them "
                f"best (mean score {own:.3f}; {next_metric} {next_score:.3f})"
            )
        if next_score > own or f"{own:.3f}" == f"{next_score:.3f}":
            return (
                f"neighbours by {self.metric}: no graph separates the groups clearly better "
                f"(score {own:.3f}; {next_metric} {next_score:.3f})"
            )
        return (
            f"neighbours by {self.metric}: their graph separates the groups best "
            f"(score {own:.3f}; next {next_metric} {next_score:.3f})"
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain dict, ready for JSON."""
        return {
            "metric": self.metric,
            "scores": dict(self.scores),
            "ridge_leaves": self.ridge_leaves,
            "parts": self.parts,
        }

    @classmethod
    def from_dict(cls, tree: Mapping[str, Any]) -> NeighborChoice:
        """Rebuild what :meth:`to_dict` wrote."""
        scores = {str(metric): float(score) for metric, score in tree["scores"].items()}
        leaves, parts = float(tree.get("ridge_leaves", 1)), int(tree.get("parts", 0))
        return cls(str(tree["metric"]), scores, leaves, parts)


def choose_metric(
    X: Tensor,
    n_clusters: int | str,
    *,
    seed: int = 0,
    metrics: tuple[str, ...] = METRICS,
    parts: int | str = "auto",
    progress: Progress = silent,
) -> NeighborChoice:
    """Choose the metric whose 5-neighbour graph is easiest to cut into k, on a sample of the rows.

    The score of a metric is the mean of λ_1 to λ_k. Ties go to the earlier metric in ``metrics``.
    Ridge neighbours are taken only if they leave a tenth less to cut than every other metric, and
    not on thin manifolds, where the near neighbours of the best other metric show the groups (see
    :func:`near_parts`; ``parts`` may give their number, 0 for none).
    For unknown k the score is averaged over several k, and ridge neighbours have to lead at one of
    them. Columns are standardised where one of them has 90 % of the variance, of two columns
    99.9 %. With fewer than eight columns neither angles nor ridge neighbours are compared, and
    ridge neighbours are not where most columns take two values.

    Examples
    --------
    >>> axes = torch.eye(4).repeat_interleave(2, 0)  # the signs differ, the line is the same
    >>> X = axes * torch.tensor([1.0, -1.0]).repeat(4)[:, None]
    >>> choose_metric(X, 4, metrics=("euclidean",)).metric
    'euclidean'
    """
    k = 0 if n_clusters == "auto" else int(n_clusters)
    pilot = _pilot(X, k, seed)
    metrics = _suitable(metrics, pilot)
    wanted = [k] if k else [c for c in _UNKNOWN_K if c <= max(2, len(pilot) // 10)]
    wanted = [min(c, len(pilot) - 1) for c in wanted if c >= 1]
    at: list[dict[str, float]] = [{} for _ in wanted]  # the scores for each k
    graphs = neighbors_by(pilot, _JUDGED_BY, metrics)
    for done, (metric, graph) in enumerate(zip(metrics, graphs, strict=True)):
        values = graph_spectrum(graph, max(wanted))
        for scores_at_k, c in zip(at, wanted, strict=True):
            scores_at_k[metric] = float(values[:c].mean())
        progress(Tick("choosing neighbours", done + 1, len(metrics)))
    scores = {metric: float(np.mean([s[metric] for s in at])) for metric in metrics}
    if k:
        leads = [_ridge_lead(scores)]
    else:
        several = [s for c, s in zip(wanted, at, strict=True) if c >= _FEWEST_UNKNOWN]
        leads = [_ridge_lead(s, _OPEN) for s in several]
    plain = _first_of_best(_apart(scores)[1] or scores)
    shown = near_parts(X, plain, n_clusters, parts, seed=seed)
    if shown:
        return NeighborChoice(plain, scores, parts=shown)
    lead = min(leads, default=_Lead(1.0, ""))
    return NeighborChoice(_choose(scores, lead), scores, lead.leaves)


def near_parts(
    X: Tensor, metric: str, n_clusters: int | str, parts: int | str = "auto", *, seed: int = 0
) -> int:
    """The number of clusters if near neighbours alone show them, see :func:`within_reach`; else 0.

    ``parts`` may give another number than that of the clusters, or 0 to keep all neighbours. For
    unknown k, the number of parts that last takes its place. A sample of a thin manifold has
    gaps, so all rows are looked at where a sample of them spreads as thin manifolds do.
    """
    if parts == 0:
        return 0
    k = int(parts) if parts != "auto" else 0 if n_clusters == "auto" else int(n_clusters)
    rows = _pilot(X, k, seed)
    graph = nearest_neighbors(rows, GRAPH_NEIGHBORS, metric=metric)
    if len(rows) < len(X) <= _ALL_ROWS and median_reach(rows, graph, metric) > _SPREAD:
        rows = X.detach().flatten(1).cpu()
        graph = nearest_neighbors(rows, GRAPH_NEIGHBORS, metric=metric)
    shown = k or lasting_parts(rows, graph, metric)
    return 0 if within_reach(rows, graph, metric, shown) is graph else shown


def _pilot(X: Tensor, k: int, seed: int) -> Tensor:
    """A random sample of the rows, in their order."""
    size = min(max(_PILOT, _PER_CLUSTER * k), _PILOT_MAX)
    order = torch.randperm(len(X), generator=torch.Generator().manual_seed(seed))[:size]
    return X.detach().flatten(1)[order.sort().values.to(X.device)].cpu()


class _Lead(NamedTuple):
    """What the best ridge neighbours leave to cut, as a share of what the best others leave."""

    leaves: float
    metric: str  # these ridge neighbours


def _ridge_lead(scores: Mapping[str, float], least: float = _TIE) -> _Lead:
    """``leaves`` is 1 where the others leave less than ``least``: there is nothing to improve."""
    ridge, plain = _apart(scores)
    if not ridge:
        return _Lead(1.0, "")
    best = _first_of_best(ridge)
    if not plain:
        return _Lead(0.0, best)
    cut = 1 - max(plain.values())
    return _Lead((1 - max(ridge.values())) / cut if cut >= least else 1.0, best)


def _choose(scores: Mapping[str, float], lead: _Lead) -> str:
    """Ridge neighbours that lead by enough, or the others with the largest score."""
    return (
        lead.metric if lead.leaves <= _RIDGE_LEAVES else _first_of_best(_apart(scores)[1] or scores)
    )


def _apart(scores: Mapping[str, float]) -> tuple[dict[str, float], dict[str, float]]:
    """The scores of ridge neighbours and those of the others."""
    ridge = {metric: score for metric, score in scores.items() if metric.startswith(RIDGE)}
    return ridge, {metric: score for metric, score in scores.items() if metric not in ridge}


def _first_of_best(scores: Mapping[str, float]) -> str:
    """The metric with the largest score; ties go to the first."""
    return next(m for m, score in scores.items() if score > max(scores.values()) - _TIE)


def _suitable(metrics: tuple[str, ...], X: Tensor) -> tuple[str, ...]:
    """The metrics whose scores can be compared on such columns; all if that would leave none."""
    if "standardized" in metrics and _one_column_dominates(X):
        return ("standardized",)
    few = int(varying_columns(X).sum()) < _ENOUGH_FOR_DIRECTIONS
    no_ridge = few or _is_mostly_binary(X)
    left = tuple(
        m for m in metrics if not (m == "cosine" and few) and not (m.startswith(RIDGE) and no_ridge)
    )
    return left or metrics


def _is_mostly_binary(X: Tensor) -> bool:
    """Whether most columns that vary take two values, as answers and one-hot categories do.

    Ridge neighbours whiten such columns, which makes rare values the most important ones. Rows that
    share them fall into small parts that can be cut off cheaply.
    """
    ends = (X.min(0).values == X) | (X.max(0).values == X)
    two = ends.all(0)[varying_columns(X)]
    return len(two) > 0 and bool(two.double().mean() > 0.5)


def _one_column_dominates(X: Tensor) -> bool:
    """Whether one of several columns has almost all the variance.

    Without standardisation the graph would be a chain along that column. A chain can be cut
    cheaply anywhere, so its score is high whether or not there are groups.
    """
    variances = X.double().var(0, correction=0)
    most = _DOMINATES if X.shape[1] > 2 else _DOMINATES_ONE
    return X.shape[1] > 1 and bool(variances.max() > most * variances.sum())
