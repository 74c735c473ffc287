"""Compare labels with k-means and spectral clustering on the same samples."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from unbend.metrics import chance_scores, clustering_scores
from unbend.metrics.tables import SCORE_COLUMNS, Table, mean_sd, score_cells
from unbend.sources import NamedSet

__all__ = ["Labels", "TimedLabels", "compare", "timed"]

Labels = NDArray[np.int64]


class TimedLabels(NamedTuple):
    """The labels of one run and the seconds it took."""

    labels: Labels
    seconds: float


def timed(fit: Callable[[int], Labels], seed: int) -> TimedLabels:
    """Run a method and measure its time."""
    start = time.perf_counter()
    labels = fit(seed)
    return TimedLabels(labels, time.perf_counter() - start)


def compare(data: NamedSet, results: dict[str, list[TimedLabels]]) -> Table:
    """Score results (one per seed) and two classical methods on the same samples and seeds."""
    flat = data.X.reshape(len(data.X), -1).astype(np.float64)
    k, n_seeds = data.n_classes, max(map(len, results.values()))
    first = next(iter(results.values()))[0].labels
    for name, fit in (("k-means", _kmeans), ("spectral clustering", _spectral)):
        classic = partial(fit, flat, k)
        results = {**results, name: [timed(classic, seed) for seed in range(n_seeds)]}
    rows = [_row(name, data, found) for name, found in results.items()]
    chance = chance_scores(data.y, first)
    rows.append(["chance, sizes of row 1", str(chance.n_clusters), *score_cells([chance]), ""])
    seeds = f"{n_seeds} seeds, mean ± sd" if n_seeds > 1 else "1 seed"
    caption = f"{data.name}: n = {len(data.y)}, split = {data.split}, {k} classes, {seeds}"
    return Table(caption, ["method", "k", *SCORE_COLUMNS, "seconds"], rows)


def _row(name: str, data: NamedSet, found: list[TimedLabels]) -> list[str]:
    scores = [clustering_scores(data.y, result.labels) for result in found]
    k = sorted({score.n_clusters for score in scores})
    seconds = mean_sd([result.seconds for result in found], 1)
    return [name, ", ".join(map(str, k)), *score_cells(scores), seconds]


def _kmeans(X: NDArray[Any], k: int, seed: int) -> Labels:
    from sklearn.cluster import KMeans

    labels: Labels = KMeans(k, n_init=10, random_state=seed).fit_predict(X)
    return labels


def _spectral(X: NDArray[Any], k: int, seed: int) -> Labels:
    from sklearn.cluster import SpectralClustering

    # The k-nearest-neighbour graph: the default RBF kernel scores near chance on pixels.
    model = SpectralClustering(k, affinity="nearest_neighbors", n_neighbors=10, random_state=seed)
    labels: Labels = model.fit_predict(X)
    return labels
