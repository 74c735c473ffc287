"""What ``unbend cluster`` does, as one function."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unbend.data import NAMED_SETS, NamedSet, load_named
from unbend.estimator import MLC
from unbend.experiments.comparison import Result
from unbend.experiments.comparison import compare as compare_methods
from unbend.metrics import chance_scores, clustering_scores
from unbend.runs import RunDirectory

__all__ = ["cluster_input"]


def cluster_input(
    source: str,
    *,
    n_clusters: int | str = "auto",
    out: Path,
    preset: str = "auto",
    seed: int = 0,
    device: str = "auto",
    overwrite: bool = False,
    compare: bool = False,
    verbose: bool = False,
) -> str:
    """Cluster a source, write a run directory, and return a summary line.

    True labels, where the source has them, are looked at only after the clustering, for scoring.
    """
    X, data = _read(source)
    if compare and data is None:
        raise ValueError(f"--compare needs true labels, and {source!r} has none; leave it out")
    run = RunDirectory(out, overwrite=overwrite)
    start = time.perf_counter()
    model = MLC(
        n_clusters, preset=preset, random_state=seed, device=device, verbose=int(verbose)
    ).fit(X)
    seconds = time.perf_counter() - start
    _write(run, model, X, data, seed)
    if compare and data is not None:
        compare_methods(data, {"MLC": [Result(model.labels_, seconds)]}).print()
    return (
        f"{len(X)} samples in {model.n_clusters_} clusters, {seconds:.0f} s; run written to {out}/"
    )


def _read(source: str) -> tuple[NDArray[Any], NamedSet | None]:
    if source in NAMED_SETS:
        data = load_named(source)
        return data.X, data
    path = Path(source)
    if not path.exists():
        raise ValueError(
            f"no file or data set {source!r}; give a .npy file or one of: {', '.join(NAMED_SETS)}"
        )
    if path.suffix != ".npy":
        raise ValueError(f"cannot read {source!r}: only .npy files and named sets are read so far")
    try:
        array = np.load(path, allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise ValueError(
            f"cannot read {source!r}: it is not a plain array of numbers ({error})"
        ) from error
    if not isinstance(array, np.ndarray):
        raise ValueError(f"cannot read {source!r}: it is an archive, not a single array")
    return array, None


def _write(
    run: RunDirectory, model: MLC, X: NDArray[Any], data: NamedSet | None, seed: int
) -> None:
    probability = model.predict_proba(X).max(axis=1)
    names = [str(i) for i in range(len(X))]
    run.write_labels(names, model.labels_, probability, model.outlier_score(X))
    run.write_history(model.history_)
    run.write_json("config.json", {"seed": seed, **model.config_.to_dict()})
    model.save(run.path / "model")
    if data is not None:
        scores = {
            "data": data.name,
            "split": data.split,
            "MLC": clustering_scores(data.y, model.labels_).to_dict(),
            "chance": chance_scores(data.y, model.labels_).to_dict(),
        }
        run.write_json("metrics.json", scores)
