"""Fig. 5: images along the principal directions of each learned cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unbend.experiments.paper.trajectory import Trajectory, trajectory
from unbend.experiments.pictures import as_picture, new_figure
from unbend.experiments.problem import Problem, open_problem
from unbend.experiments.runner import Runner, show_progress
from unbend.metrics import numerical_rank
from unbend.metrics.tables import Table, file_name

__all__ = ["draw", "principal_images", "run"]

DIRECTIONS = 8  # as in the paper
IMAGES = 8  # per row
MOST_CLUSTERS = 20


def run(
    *,
    data: str | None = None,
    scale: str = "small",
    out: Path | None = None,
    verbose: bool = True,
) -> Table:
    """For each cluster, the images nearest to its first eight principal components."""
    problem = open_problem(data, scale=scale)
    if problem.X.ndim == 2:
        raise ValueError(f"figure5 shows images, and {problem.name!r} has vectors; try 'digits'")
    with show_progress(verbose) as progress:
        found = trajectory(Runner(problem, progress), 0)
    name = file_name("figure5", data)
    table = _table(problem, found).saved(out, name)
    if out is not None:
        draw(problem, found).savefig(Path(out) / f"{name}.png", dpi=150)
    return table


def principal_images(
    Z: NDArray[np.floating], n_directions: int = DIRECTIONS, n_images: int = IMAGES
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Rows of Z nearest to each principal component of Z, and the share of energy of each.

    As in the paper, features are not centred: the components span their subspace. Nearness is the
    cosine; the sign of a component is the one with more of the energy.

    Returns
    -------
    rows : ndarray of shape (n_directions, n_images)
    energy : ndarray of shape (n_directions,)
    """
    _, s, Vt = np.linalg.svd(np.asarray(Z, dtype=np.float64), full_matrices=False)
    count = min(n_directions, len(s))
    scores = Z @ Vt[:count].T
    up = (np.clip(scores, 0, None) ** 2).sum(0) >= (np.clip(scores, None, 0) ** 2).sum(0)
    scores = scores * np.where(up, 1.0, -1.0)
    rows = np.argsort(-scores, axis=0, kind="stable")[:n_images].T
    return rows.astype(np.int64), s[:count] ** 2 / (s**2).sum()


def _table(problem: Problem, t: Trajectory) -> Table:
    rows = []
    for cluster in np.unique(t.labels):
        members = t.labels == cluster
        classes, counts = np.unique(problem.y[members], return_counts=True)
        _, energy = principal_images(t.Z[members])
        rows.append(
            [
                str(cluster),
                str(int(members.sum())),
                str(classes[counts.argmax()]),
                f"{counts.max() / counts.sum():.3f}",
                str(numerical_rank(t.Z[members])),
                f"{energy[0]:.3f}",
                f"{energy.sum():.3f}",
            ]
        )
    return Table(
        f"Figure 5. {problem.describe()}, 1 seed",
        [
            "cluster",
            "samples",
            "most frequent class",
            "its share",
            "rank",
            "energy of direction 1",
            f"of the first {DIRECTIONS}",
        ],
        rows,
    )


def draw(problem: Problem, t: Trajectory) -> Any:
    """A block of images for each cluster, a row for each principal component."""
    clusters = np.unique(t.labels)[:MOST_CLUSTERS]
    across = min(5, len(clusters))
    down = -(-len(clusters) // across)
    figure = new_figure(3.1 * across, 3.35 * down)
    grid = figure.subplots(down, across, squeeze=False)
    for axes in grid.flat:
        axes.set_axis_off()
    for axes, cluster in zip(grid.flat, clusters, strict=False):
        members = np.flatnonzero(t.labels == cluster)
        rows, _ = principal_images(t.Z[members])
        axes.imshow(_mosaic(problem.X[members], rows), cmap="gray_r", vmin=0, vmax=1)
        axes.set_title(f"cluster {cluster}: {len(members)} samples", fontsize=10)
    figure.supxlabel("each row: the images nearest to one principal component, the first on top")
    return figure


def _mosaic(X: NDArray[Any], rows: NDArray[np.int64]) -> NDArray[np.float64]:
    """Images in rows with a thin gap."""
    strips = []
    for line in rows:
        cells = [_framed(as_picture(X[i])) for i in line]
        strips.append(np.concatenate(cells, axis=1))
    width = max(s.shape[1] for s in strips)
    blank = [((0, 0), (0, width - s.shape[1]), *[(0, 0)] * (s.ndim - 2)) for s in strips]
    return np.concatenate([np.pad(s, b) for s, b in zip(strips, blank, strict=True)], axis=0)


def _framed(picture: NDArray[np.float64]) -> NDArray[np.float64]:
    edge = max(1, picture.shape[0] // 16)
    fill = 0.0 if picture.ndim == 2 else 1.0  # white in both colour maps
    return np.pad(
        picture, ((0, edge), (0, edge), *[(0, 0)] * (picture.ndim - 2)), constant_values=fill
    )
