"""The pictures of the report as matplotlib figures, for papers and notebooks.

Every function takes a summary (:func:`~unbend.report.summarise`), draws into ``ax`` where that is
given, and returns the axes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from unbend.report.palette import colours

__all__ = [
    "plot_contact_sheet",
    "plot_contingency",
    "plot_map",
    "plot_principal_images",
    "plot_rates",
    "plot_similarity",
    "plot_spectrum",
    "plot_tree",
]


def plot_similarity(summary: dict[str, Any], ax: Any = None) -> Any:
    """|Z Zᵀ| with samples ordered by cluster, the paper's cosine-similarity figure."""
    found = _part(summary, "similarity", "features")
    ax = _axes(ax, (4.6, 4))
    image = ax.imshow(found["matrix"] / 255, vmin=0, vmax=1, cmap="Blues", interpolation="none")
    bounds = np.asarray(found["bounds"])
    middles = (bounds[:-1] + bounds[1:]) / 2 - 0.5
    if len(middles) <= 30:
        ax.set_xticks(middles, found["clusters"])
        ax.set_yticks(middles, found["clusters"])
    ax.tick_params(length=0)
    ax.set(xlabel="cluster", ylabel="cluster")
    ax.figure.colorbar(image, ax=ax, label="|cos|", shrink=0.85)
    return ax


def plot_spectrum(summary: dict[str, Any], ax: Any = None) -> Any:
    """Leading eigenvalues of Γ; a line marks the gap after k."""
    found = _part(summary, "spectrum", "eigenvalues")
    ax = _axes(ax, (5, 3))
    values, k = found["eigenvalues"], found["k"]
    ax.plot(range(1, len(values) + 1), values, "o-", ms=4, color=colours(1)[0])
    ax.axvline(k + 0.5, color="0.5", ls="--", lw=1)
    gap = "" if found["gap"] is None else f", gap {found['gap']:.3g}"
    ax.set(xlabel="number", ylabel="eigenvalue of Γ", title=f"k = {k}{gap}")
    return ax


def plot_rates(summary: dict[str, Any], ax: Any = None) -> Any:
    """R, R_c and ΔR over the training steps, stages one after the other."""
    stages = _part(summary, "history", "history")
    ax = _axes(ax, (6, 3.2))
    offset, named = 0, set()
    for stage in stages:
        for i, (key, name) in enumerate((("R", "$R$"), ("R_c", "$R_c$"), ("delta_R", "$ΔR$"))):
            if stage[key] is not None:
                label = None if key in named else name
                steps = np.asarray(stage["step"]) + offset
                ax.plot(steps, stage[key], color=colours(5)[(0, 4, 2)[i]], label=label)
                named.add(key)
        offset += stage["n_steps"]
        if stage is not stages[-1]:
            ax.axvline(offset, color="0.6", ls="--", lw=1)
    ax.set(xlabel="step", ylabel="nats")
    ax.legend(frameon=False)
    return ax


def plot_map(summary: dict[str, Any], ax: Any = None, *, numbers: bool = True) -> Any:
    """Features in two dimensions, coloured by cluster."""
    found = _part(summary, "map", "features")
    ax = _axes(ax, (5.5, 5))
    samples, slots = summary["samples"], np.asarray(found["slots"])
    x, y = np.asarray(samples["x"])[slots], np.asarray(samples["y"])[slots]
    labels = np.asarray(samples["cluster"])[slots]
    palette = colours(summary["k"])
    ax.scatter(x, y, s=4, lw=0, c=[palette[q] for q in labels], rasterized=True)
    for q in np.unique(labels) if numbers else ():
        own = labels == q
        ax.annotate(
            str(q),
            (float(np.median(x[own])), float(np.median(y[own]))),
            ha="center",
            va="center",
            weight="bold",
            bbox={"boxstyle": "circle,pad=0.15", "fc": "white", "ec": "none", "alpha": 0.8},
        )
    ax.set_aspect("equal")
    ax.set_axis_off()
    return ax


def plot_contact_sheet(
    summary: dict[str, Any], cluster: int, ax: Any = None, *, columns: int = 6
) -> Any:
    """Typical members of a cluster side by side."""
    slots = _cluster(summary, cluster)["examples"]
    rows = [slots[i : i + columns] for i in range(0, len(slots), columns)]
    return _picture_rows(summary, rows, ax, f"cluster {cluster}")


def plot_principal_images(summary: dict[str, Any], cluster: int, ax: Any = None) -> Any:
    """Rows of images closest to the principal components of a cluster (the paper's appendix)."""
    rows = [row["slots"] for row in _cluster(summary, cluster)["principal"]]
    return _picture_rows(summary, rows, ax, f"cluster {cluster}, principal images")


def plot_tree(summary: dict[str, Any], ax: Any = None) -> Any:
    """The merge tree as a dendrogram; heights are nats of coding length."""
    from scipy.cluster.hierarchy import dendrogram

    tree = np.asarray(_part(summary, "tree", "merge_tree"))
    ax = _axes(ax, (6, 3))
    dendrogram(tree, ax=ax, color_threshold=0, above_threshold_color=colours(1)[0])
    ax.set(xlabel="cluster", ylabel="cost of merging (nats)")
    return ax


def plot_contingency(summary: dict[str, Any], ax: Any = None) -> Any:
    """True classes against clusters, rows as shares, matched clusters on the diagonal."""
    truth = _part(summary, "truth", "y")
    if not truth["table"]:
        raise ValueError("`truth` of the summary has scores only, no table; give y to summarise")
    ax = _axes(ax, (5, 4.4))
    table, match = np.asarray(truth["table"]), truth["match"]
    order = sorted(range(table.shape[1]), key=lambda c: (match[c] is None, match[c] or 0))
    share = table[:, order] / np.maximum(table.sum(1, keepdims=True), 1)
    ax.imshow(share, cmap="Blues", vmin=0, vmax=1)
    ax.set_xticks(range(len(order)), [truth["clusters"][c] for c in order])
    ax.set_yticks(range(len(table)), truth["classes"])
    ax.set(xlabel="cluster", ylabel="true class")
    if table.size <= 400:
        for (r, c), value in np.ndenumerate(table[:, order]):
            if value:
                tone = "white" if share[r, c] > 0.5 else "black"
                ax.text(c, r, str(value), ha="center", va="center", size=7, color=tone)
    return ax


def _axes(ax: Any, size: tuple[float, float]) -> Any:
    if ax is not None:
        return ax
    try:
        from matplotlib import pyplot as plt
    except ImportError as error:
        raise ImportError("plots need matplotlib; pip install 'unbend[plot]'") from error
    return plt.subplots(figsize=size, layout="constrained")[1]


def _part(summary: dict[str, Any], name: str, need: str) -> Any:
    if not summary[name]:
        raise ValueError(f"the summary has no `{name}`: it was made without `{need}`")
    return summary[name]


def _cluster(summary: dict[str, Any], cluster: int) -> dict[str, Any]:
    if not 0 <= cluster < summary["k"]:
        raise ValueError(f"`cluster` must be from 0 to {summary['k'] - 1}, got {cluster}")
    found: dict[str, Any] = summary["clusters"][cluster]
    return found


def _picture_rows(summary: dict[str, Any], rows: list[list[int]], ax: Any, title: str) -> Any:
    thumbnails = summary["thumbnails"]
    if thumbnails is None:
        raise ValueError("the summary has no pictures; give images to summarise")
    h, w = thumbnails.shape[1:3]
    width = max((len(row) for row in rows), default=0)
    sheet = np.full((len(rows), h, width, w, 3), 255, dtype=np.uint8)
    for r, row in enumerate(rows):
        for c, slot in enumerate(row):
            tile = summary["samples"]["thumbnail"][slot]
            if tile >= 0:
                sheet[r, :, c] = thumbnails[tile]
    ax = _axes(ax, (0.6 * width + 0.2, 0.6 * len(rows) + 0.4))
    ax.imshow(sheet.reshape(len(rows) * h, width * w, 3))
    ax.set_title(title)
    ax.set_axis_off()
    return ax
