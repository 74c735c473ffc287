"""The cells of a benchmark: each runs in its own process and is stored as JSON."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from unbend.disk import atomic_write, hash_values
from unbend.disk.provenance import ESTIMATOR, PEERS, code_hash, origin, use_kept
from unbend.experiments.benchmark.datasets import Dataset
from unbend.metrics import Scores, clustering_scores

__all__ = ["Cell", "CellResult", "run_cell"]


@dataclass(frozen=True)
class Cell:
    """A method with its parameters, a seed and a number of clusters."""

    method: str
    params: dict[str, Any]
    seed: int
    n_clusters: int

    def key(self, fingerprint: str) -> str:
        """Hash of everything that the result depends on, the code included."""
        rooms = ESTIMATOR if self.method == "mlc" else PEERS
        code = code_hash(*rooms, "metrics", "experiments/benchmark/worker.py")
        return hash_values(code, fingerprint, self.method, self.params, self.seed, self.n_clusters)[
            :12
        ]

    def file_name(self, dataset: Dataset) -> str:
        """A readable name, made unique by the key."""
        name = re.sub(r"[^\w.-]+", "_", f"{dataset.name}-{self.method}-seed{self.seed}")
        return f"{name}-{self.key(dataset.fingerprint)}.json"


@dataclass(frozen=True)
class CellResult:
    """The result of a cell; if it failed, ``scores`` is None and ``reason`` says why.

    ``cpu_seconds`` add up all threads and hardly depend on what else the machine does. ``limit``
    is the time limit of a cell that did not finish.
    """

    scores: Scores | None
    seconds: float = 0.0
    peak_bytes: int = 0
    sizes: tuple[int, ...] = ()
    reason: str = ""
    limit: float | None = None
    cpu_seconds: float = 0.0

    def holds(self, timeout: float | None) -> bool:
        """Whether running it again is pointless: it succeeded, or had at least as much time."""
        if self.scores is not None:
            return True
        return self.limit is not None and timeout is not None and timeout <= self.limit


def run_cell(cell: Cell, dataset: Dataset, folder: Path, timeout: float | None) -> CellResult:
    """Read the stored result, or run the cell and store it.

    A failed cell is run again; one that took too long only if it gets more time.
    """
    place = folder / cell.file_name(dataset)
    kept = _read(place)
    if kept is not None and kept.holds(timeout):
        return kept
    outcome = _run(cell, dataset, timeout)
    _keep(place, cell, dataset, outcome)
    return outcome


def _read(place: Path) -> CellResult | None:
    try:
        tree = json.loads(place.read_text())
        if tree.pop("hash") != hash_values(tree):
            return None
        scores = None if tree["scores"] is None else Scores(**tree["scores"])
        sizes = tuple(map(int, tree["sizes"]))
        use_kept(str(tree["commit"]))
        measured = tree["seconds"], tree["peak_bytes"]
        rest = tree["reason"], tree["limit"], tree["cpu_seconds"]
        return CellResult(scores, *measured, sizes, *rest)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):  # absent or damaged
        return None


def _keep(place: Path, cell: Cell, dataset: Dataset, outcome: CellResult) -> None:
    tree = {
        "data": {"name": dataset.name, "split": dataset.split, "n": len(dataset.y)},
        "method": cell.method,
        "params": cell.params,
        "seed": cell.seed,
        "n_clusters": cell.n_clusters,
        "scores": None if outcome.scores is None else outcome.scores.to_dict(),
        "seconds": outcome.seconds,
        "cpu_seconds": outcome.cpu_seconds,
        "peak_bytes": outcome.peak_bytes,
        "sizes": outcome.sizes,
        "reason": outcome.reason,
        "limit": outcome.limit,
        "commit": origin(),
    }
    atomic_write(place, json.dumps({**tree, "hash": hash_values(tree)}, indent=1) + "\n")


def _run(cell: Cell, dataset: Dataset, timeout: float | None) -> CellResult:
    with TemporaryDirectory() as folder:
        request, labels = Path(folder) / "request.json", Path(folder) / "labels.npy"
        job = {
            "X": str(dataset.path),
            "method": cell.method,
            "params": cell.params,
            "seed": cell.seed,
            "n_clusters": cell.n_clusters,
        }
        request.write_text(json.dumps(job))
        command = [
            sys.executable,
            "-m",
            "unbend.experiments.benchmark.worker",
            str(request),
            str(labels),
        ]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=timeout, env=_environment()
            )
        except subprocess.TimeoutExpired:
            return CellResult(None, reason=f"took longer than {timeout:g} s", limit=timeout)
        if done.returncode:
            return CellResult(None, reason=_reason(done.returncode, done.stderr))
        measured = json.loads(done.stdout.splitlines()[-1])
        pred = np.load(labels, allow_pickle=False)
    sizes = tuple(int(m) for m in np.bincount(np.unique(pred, return_inverse=True)[1]))
    scores = clustering_scores(dataset.y, pred)
    return CellResult(
        scores,
        float(measured["seconds"]),
        int(measured["peak_bytes"]),
        sizes,
        cpu_seconds=float(measured["cpu_seconds"]),
    )


def _environment() -> dict[str, str]:
    """The environment of this process; spinning threads would slow other processes down."""
    return {"OMP_WAIT_POLICY": "PASSIVE", **os.environ}


def _reason(code: int, errors: str) -> str:
    if code < 0:
        name = signal.Signals(-code).name
        more = ", perhaps out of memory" if name == "SIGKILL" else ""
        return f"ended by {name}{more}"
    lines = [line for line in errors.splitlines() if line.strip()]
    return lines[-1].strip() if lines else f"exit code {code} without a message"
