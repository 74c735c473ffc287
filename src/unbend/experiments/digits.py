"""MLC beside k-means and spectral clustering on all of scikit-learn's digits."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unbend.data import NamedSet, load_named
from unbend.estimator import MLC
from unbend.experiments.tables import SCORE_COLUMNS, Table, mean_sd, score_cells
from unbend.metrics import Scores, chance_scores, clustering_scores

__all__ = ["compare", "run"]

Labels = NDArray[np.int64]


def run(*, seeds: int = 5, out: Path | None = None, verbose: bool = True) -> Table:
    """The whole pipeline once per seed, one recipe for all; true labels only score."""
    data = load_named("digits")

    def mlc(seed: int) -> Labels:
        model = MLC(n_clusters=data.n_classes, random_state=seed, verbose=int(verbose))
        return model.fit(data.X).labels_

    table = compare(data, {"MLC (unbend)": mlc}, range(seeds))
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        table.write(out / "digits")
    return table


def compare(
    data: NamedSet, methods: dict[str, Callable[[int], Labels]], seeds: Sequence[int]
) -> Table:
    """Score methods (seed → labels) beside the classics on the same samples."""
    flat = data.X.reshape(len(data.X), -1).astype(np.float64)
    k = data.n_classes
    rows: list[list[str]] = []
    methods = methods | {
        "k-means": lambda seed: _kmeans(flat, k, seed),
        "spectral clustering": lambda seed: _spectral(flat, k, seed),
    }
    last: Labels | None = None
    for name, fit in methods.items():
        scores: list[Scores] = []
        seconds = []
        for seed in seeds:
            start = time.perf_counter()
            labels = fit(seed)
            seconds.append(time.perf_counter() - start)
            scores.append(clustering_scores(data.y, labels))
            last = labels if last is None else last
        rows.append([name, *score_cells(scores), mean_sd(seconds, 1)])
    if last is not None:
        chance = chance_scores(data.y, last)
        rows.append(["chance, sizes of the first row", *score_cells([chance]), ""])
    caption = (
        f"{data.name}: n = {len(data.y)}, split = {data.split}, k = {k}, {len(seeds)} seed"
        + ("s, mean ± sd" if len(seeds) > 1 else "")
    )
    return Table(caption, ["method", *SCORE_COLUMNS, "seconds"], rows)


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
