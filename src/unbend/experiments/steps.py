"""How long stage 1 must be: scores beside numbers that need no labels, for shorter and longer fits.

An early stop would look at such a number while stage 1 runs. The table shows whether the rate, the
rank or the neighbours of the features stop changing where the scores do.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from unbend.config import resolve
from unbend.disk import hash_array
from unbend.disk.provenance import ESTIMATOR
from unbend.estimator import MLC
from unbend.experiments.memory import Arrays, remember
from unbend.experiments.problem import seeds_of
from unbend.experiments.runner import show_progress
from unbend.experiments.suite.problems import load_problem
from unbend.metrics import clustering_scores
from unbend.metrics.tables import Table, file_name, mean_sd
from unbend.progress import Tick
from unbend.samples import nearest_neighbors
from unbend.threads import use_threads

__all__ = ["FACTORS", "run"]

FACTORS = (0.25, 0.5, 1.0, 2.0)  # of the steps that the preset plans
PROBLEMS = (
    "digits", "digits-images", "cifar10-lite2-200", "surfaces-8", "satellite", "faces-under-light",
)  # fmt: skip
COLUMNS = (
    "problem", "steps", "ACC", "NMI", "ARI",
    "R, share of the largest", "rank", "neighbours kept from the fit before", "seconds, one core",
)  # fmt: skip
_NEIGHBORS = 10


def run(
    *,
    data: str | None = None,
    seeds: int | None = None,
    out: Path | None = None,
    verbose: bool = True,
) -> Table:
    """Fit every problem with four lengths of stage 1; about ten seconds of a core for each fit.

    Parameters
    ----------
    data : str, optional
        Some problems of the development list, as in ``"digits,satellite"``.
    seeds : int, optional
        How many; by default 2.
    out : path, optional
        Where the table goes.
    """
    names = [word.strip() for word in (data or ",".join(PROBLEMS)).split(",")]
    each = seeds_of(seeds, 2, 2, "small")
    rows = []
    with show_progress(verbose) as progress:
        for done, name in enumerate(names):
            X, y = load_problem("development", name)
            rows += _rows(name, y, [[_fit(X, y, f, seed) for seed in each] for f in FACTORS])
            progress(Tick("steps", done + 1, len(names)))
    caption = f"length of stage 1: development problems, mean ± sd over {len(each)} seeds"
    note = (
        f"Neighbours: the share of the {_NEIGHBORS} nearest samples in the features Z that the "
        "next shorter fit of the same seed has too. R and rank are those of the last batch."
    )
    return Table(caption, COLUMNS, rows, [note]).saved(out, file_name("steps", data))


def _fit(X: NDArray[Any], y: NDArray[np.int64], factor: float, seed: int) -> Arrays:
    k = len(np.unique(y))

    def work() -> Arrays:
        planned = resolve(_shape(X), len(X), k, budget="normal").pretrain.max_steps
        steps = max(1, round(factor * planned))
        lengths = {"pretrain.min_steps": steps, "pretrain.max_steps": steps}
        model = MLC(k, random_state=seed, settings=lengths)
        start = time.process_time()
        with use_threads(1):
            model.fit(X)
        seconds = time.process_time() - start
        last = [row for row in model.history_ if row["stage"] == "stage 1"][-1]
        config = model.config_
        largest = config.network.dim * np.log1p(1 / config.pretrain.eps_sq)
        Z = torch.from_numpy(np.asarray(model.transform(X)))
        return {
            "labels": model.labels_,
            "neighbors": nearest_neighbors(Z, _NEIGHBORS).numpy(),
            "numbers": np.array([steps, last["R"] / largest, last["rank"], seconds]),
        }

    return remember("steps", [hash_array(X), factor, seed], work, rooms=ESTIMATOR)


def _shape(X: NDArray[Any]) -> tuple[int, ...]:
    """The shape of a sample as the network gets it."""
    return (1, *X.shape[1:]) if X.ndim == 3 else X.shape[1:]


def _rows(name: str, y: NDArray[np.int64], fits: list[list[Arrays]]) -> list[list[str]]:
    rows = []
    for i, found in enumerate(fits):
        scores = [clustering_scores(y, fit["labels"]) for fit in found]
        numbers = np.array([fit["numbers"] for fit in found])
        kept = ""
        if i > 0:
            pairs = zip(found, fits[i - 1], strict=True)
            kept = mean_sd([_kept(a["neighbors"], b["neighbors"]) for a, b in pairs], 2)
        rows.append([
            name,
            f"{int(numbers[0, 0])}",
            *(mean_sd([getattr(s, score) for s in scores]) for score in ("acc", "nmi", "ari")),
            mean_sd(numbers[:, 1].tolist(), 2),
            mean_sd(numbers[:, 2].tolist(), 1),
            kept,
            mean_sd(numbers[:, 3].tolist(), 1),
        ])  # fmt: skip
    return rows


def _kept(now: NDArray[np.int64], before: NDArray[np.int64]) -> float:
    """The share of neighbours that stand in both lists of a sample."""
    return float((now[:, :, None] == before[:, None, :]).any(2).mean())
