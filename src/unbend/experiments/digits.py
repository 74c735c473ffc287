"""MLC, k-means and spectral clustering on all of scikit-learn's digits."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from unbend.estimator import MLC
from unbend.metrics.comparison import Labels, compare, timed
from unbend.metrics.tables import Table
from unbend.sources import load_named

__all__ = ["run"]


def run(*, seeds: int = 5, out: Path | None = None, verbose: bool = True) -> Table:
    """Run the whole pipeline once per seed with the same settings; true labels only score."""
    data = load_named("digits")
    presets = {"MLC on images": "images", "MLC on vectors": "vectors"}

    def mlc(preset: str, seed: int) -> Labels:
        model = MLC(data.n_classes, preset=preset, random_state=seed, verbose=int(verbose))
        return model.fit(data.X).labels_

    results = {
        name: [timed(partial(mlc, preset), seed) for seed in range(seeds)]
        for name, preset in presets.items()
    }
    table = compare(data, results)
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        table.write(out / "digits")
    return table
