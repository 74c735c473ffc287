"""The charts of the report as matplotlib axes, for papers and notebooks.

Every function takes a fitted :class:`~unbend.MLC`, draws into ``ax`` (by default into a new
figure) and returns the axes. They need ``pip install 'unbend[plot]'``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from unbend.estimator import MLC
from unbend.report.map2d import lay_out, sample_by_cluster
from unbend.report.palette import colours
from unbend.report.run_facts import facts_of_run

__all__ = ["plot_map", "plot_rates", "plot_similarity", "plot_spectrum", "plot_tree"]

_MOST_TICKS = 30  # clusters; more numbers than this would overlap on an axis


def plot_map(
    model: MLC, X: Any = None, *, ax: Any = None, max_samples: int = 20_000, seed: int = 0
) -> Any:
    """Features in two dimensions, coloured and numbered by cluster.

    The map is the one of the report: t-SNE with cos² as the similarity, because a cluster is a
    linear subspace.

    Parameters
    ----------
    model : MLC
        A fitted model.
    X : array-like, optional
        Samples to show; by default those of ``fit`` or of the run that the model was loaded from.
        A model that ``save`` wrote no longer holds them.
    ax : matplotlib.axes.Axes, optional
        Where to draw.
    max_samples : int
        At most this many samples are shown; they are drawn at random.
    seed : int
        Decides which samples are drawn.

    Returns
    -------
    matplotlib.axes.Axes
    """
    Z, labels = _features(model, X)
    return draw_map(Z, labels, model.n_clusters_, ax=ax, max_samples=max_samples, seed=seed)


def draw_map(
    Z: NDArray[np.floating],
    labels: NDArray[np.int64],
    n_clusters: int,
    *,
    ax: Any = None,
    max_samples: int = 20_000,
    seed: int = 0,
) -> Any:
    """What :func:`plot_map` draws, from features and labels."""
    rows = sample_by_cluster(labels, max_samples, seed=seed)
    (x, y), labels = lay_out(Z[rows], seed=seed).T, labels[rows]
    ax = _axes(ax, (5.5, 5))
    palette = colours(n_clusters)
    ax.scatter(x, y, s=4, lw=0, c=[palette[q] for q in labels], rasterized=True)
    for q in np.unique(labels):
        members = labels == q
        ax.annotate(
            str(q),
            (float(np.median(x[members])), float(np.median(y[members]))),
            ha="center",
            va="center",
            weight="bold",
            bbox={"boxstyle": "circle,pad=0.15", "fc": "white", "ec": "none", "alpha": 0.8},
        )
    ax.set_aspect("equal")
    ax.set_axis_off()
    return ax


def plot_similarity(
    model: MLC, X: Any = None, *, ax: Any = None, max_samples: int = 480, seed: int = 0
) -> Any:
    """|Z Zᵀ| with samples ordered by cluster, the paper's cosine-similarity figure.

    Parameters are those of :func:`plot_map`. Bright blocks on a dark ground mean that clusters
    are orthogonal to each other.
    """
    Z, labels = _features(model, X)
    rows = sample_by_cluster(labels, max_samples, seed=seed, least=2)
    rows = rows[np.argsort(labels[rows], kind="stable")]
    ax = _axes(ax, (4.6, 4))
    cosines = np.abs(Z[rows] @ Z[rows].T)
    image = ax.imshow(cosines, vmin=0, vmax=1, cmap="Blues", interpolation="none")
    clusters, counts = np.unique(labels[rows], return_counts=True)
    if len(clusters) <= _MOST_TICKS:
        middles = np.cumsum(counts) - counts / 2 - 0.5
        ax.set_xticks(middles, clusters)
        ax.set_yticks(middles, clusters)
    ax.tick_params(length=0)
    ax.set(xlabel="cluster", ylabel="cluster")
    ax.figure.colorbar(image, ax=ax, label="|cos|", shrink=0.85)
    return ax


def plot_spectrum(model: MLC, *, ax: Any = None) -> Any:
    """Leading eigenvalues of the membership Γ; a dashed line marks the gap after k."""
    check_is_fitted(model)
    k, values = model.n_clusters_, model.eigenvalues_
    values = values[: max(2 * k + 5, 30)]
    ax = _axes(ax, (5, 3))
    ax.plot(range(1, len(values) + 1), values, "o-", ms=4, color=colours(1)[0])
    ax.axvline(k + 0.5, color="0.5", ls="--", lw=1)
    gap = f", gap {values[k - 1] - values[k]:.3g}" if len(values) > k else ""
    ax.set(xlabel="number", ylabel="eigenvalue of Γ", title=f"k = {k}{gap}")
    return ax


def plot_rates(model: MLC, *, ax: Any = None) -> Any:
    """R, R_c and ΔR over the training steps of all stages; dashed lines separate the stages."""
    check_is_fitted(model)
    history, stages = model.history_, [row["stage"] for row in model.history_]
    ax = _axes(ax, (6, 3.2))
    palette = colours(5)
    for key, name, colour in (("R", "$R$", 0), ("R_c", "$R_c$", 4), ("delta_R", "$ΔR$", 2)):
        values = np.array([np.nan if row.get(key) is None else row[key] for row in history])
        if np.isfinite(values).any():
            ax.plot(values, color=palette[colour], label=name)
    for step in range(1, len(stages)):
        if stages[step] != stages[step - 1]:
            ax.axvline(step - 0.5, color="0.6", ls="--", lw=1)
    ax.set(xlabel="step", ylabel="nats")
    ax.legend(frameon=False)
    return ax


def plot_tree(model: MLC, *, ax: Any = None) -> Any:
    """The merge tree as a dendrogram; heights are the costs of merging."""
    from scipy.cluster.hierarchy import dendrogram

    check_is_fitted(model)
    if model.n_clusters_ < 2:
        raise ValueError("plot_tree needs a model of at least 2 clusters, got 1")
    ax = _axes(ax, (6, 3))
    dendrogram(model.merge_tree_, ax=ax, color_threshold=0, above_threshold_color=colours(1)[0])
    ax.set(xlabel="cluster", ylabel="cost of merging")
    return ax


def _features(model: MLC, X: Any) -> tuple[NDArray[np.floating], NDArray[np.int64]]:
    """Features and labels of X, or of the samples of fit, without outliers labelled -1."""
    check_is_fitted(model)
    if X is None and not model.holds_fit_output and model._run is not None:
        Z, labels = _stored(model._run)
    else:
        found = model.assess_fitted() if X is None else model.assess(X)
        Z, labels = found.Z, model.labels_ if X is None else found.labels
    return Z[labels >= 0], labels[labels >= 0]


def _stored(run: Path) -> tuple[NDArray[np.floating], NDArray[np.int64]]:
    """Features and labels of all samples of a run."""
    facts = facts_of_run(run, noise=True)
    if facts.features is None:
        raise ValueError(f"the run {str(run)!r} holds no features.npy; pass the samples as X")
    return facts.features, facts.labels


def _axes(ax: Any, size: tuple[float, float]) -> Any:
    if ax is not None:
        return ax
    try:
        from matplotlib import pyplot as plt
    except ImportError as error:
        raise ImportError("plots need matplotlib; pip install 'unbend[plot]'") from error
    return plt.subplots(figsize=size, layout="constrained")[1]
