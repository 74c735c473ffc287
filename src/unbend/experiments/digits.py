"""MLC, k-means and spectral clustering on all of scikit-learn's digits."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from unbend.estimator import MLC
from unbend.metrics.comparison import Labels, compare, timed
from unbend.metrics.tables import Table
from unbend.sources import load_named

__all__ = ["run"]


def run(*, seeds: int = 5, out: Path | None = None, verbose: bool = True) -> Table:
    """Run the whole pipeline once per seed with the same settings; true labels only score."""
    data = load_named("digits")
    inputs = {"MLC on images": data.X, "MLC on vectors": data.X.reshape(len(data.X), -1)}

    def mlc(X: NDArray[Any], seed: int) -> Labels:
        model = MLC(n_clusters=data.n_classes, random_state=seed, verbose=int(verbose))
        return model.fit(X).labels_

    results = {
        name: [timed(partial(mlc, X), seed) for seed in range(seeds)] for name, X in inputs.items()
    }
    table = compare(data, results)
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        table.write(out / "digits")
    return table
