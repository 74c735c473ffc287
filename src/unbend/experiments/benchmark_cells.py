"""The cells of a benchmark: run in a process of their own, kept as JSON."""

from __future__ import annotations

import hashlib
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

from unbend.experiments.benchmark_data import Samples
from unbend.experiments.provenance import commit
from unbend.metrics import Scores, clustering_scores
from unbend.runs import atomic_write

__all__ = ["Cell", "Outcome", "run_cell"]


@dataclass(frozen=True)
class Cell:
    """A method with its parameters, a seed and a number of clusters."""

    method: str
    params: dict[str, Any]
    seed: int
    n_clusters: int

    def key(self, fingerprint: str) -> str:
        """Everything that the result depends on, as a short hash."""
        parts = [fingerprint, self.method, self.params, self.seed, self.n_clusters]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:12]

    def file_name(self, samples: Samples) -> str:
        """Readable, and unique by the key."""
        name = re.sub(r"[^\w.-]+", "_", f"{samples.name}-{self.method}-seed{self.seed}")
        return f"{name}-{self.key(samples.fingerprint)}.json"


@dataclass(frozen=True)
class Outcome:
    """What came out of a cell; ``scores`` is None when it failed, for ``reason``."""

    scores: Scores | None
    seconds: float = 0.0
    peak_bytes: int = 0
    sizes: tuple[int, ...] = ()
    reason: str = ""


def run_cell(cell: Cell, samples: Samples, folder: Path, timeout: float | None) -> Outcome:
    """The outcome on disk, or run the cell and keep its outcome; a failed one is run again."""
    place = folder / cell.file_name(samples)
    kept = _read(place)
    if kept is not None and kept.scores is not None:
        return kept
    outcome = _run(cell, samples, timeout)
    _keep(place, cell, samples, outcome)
    return outcome


def _read(place: Path) -> Outcome | None:
    try:
        tree = json.loads(place.read_text())
        scores = None if tree["scores"] is None else Scores(**tree["scores"])
        sizes = tuple(map(int, tree["sizes"]))
        return Outcome(scores, tree["seconds"], tree["peak_bytes"], sizes, tree["reason"])
    except (OSError, ValueError, KeyError, TypeError):  # absent, or of another version
        return None


def _keep(place: Path, cell: Cell, samples: Samples, outcome: Outcome) -> None:
    tree = {
        "data": {"name": samples.name, "split": samples.split, "n": len(samples.y)},
        "method": cell.method,
        "params": cell.params,
        "seed": cell.seed,
        "n_clusters": cell.n_clusters,
        "scores": None if outcome.scores is None else outcome.scores.to_dict(),
        "seconds": outcome.seconds,
        "peak_bytes": outcome.peak_bytes,
        "sizes": outcome.sizes,
        "reason": outcome.reason,
        "commit": commit(),
    }
    atomic_write(place, json.dumps(tree, indent=1) + "\n")


def _run(cell: Cell, samples: Samples, timeout: float | None) -> Outcome:
    with TemporaryDirectory() as folder:
        request, labels = Path(folder) / "request.json", Path(folder) / "labels.npy"
        job = {
            "X": str(samples.path),
            "method": cell.method,
            "params": cell.params,
            "seed": cell.seed,
            "n_clusters": cell.n_clusters,
        }
        request.write_text(json.dumps(job))
        command = [sys.executable, "-m", "unbend.experiments.cell", str(request), str(labels)]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=timeout, env=_environment()
            )
        except subprocess.TimeoutExpired:
            return Outcome(None, reason=f"took longer than {timeout:g} s")
        if done.returncode:
            return Outcome(None, reason=_reason(done.returncode, done.stderr))
        measured = json.loads(done.stdout.splitlines()[-1])
        pred = np.load(labels, allow_pickle=False)
    sizes = tuple(int(m) for m in np.bincount(np.unique(pred, return_inverse=True)[1]))
    scores = clustering_scores(samples.y, pred)
    return Outcome(scores, float(measured["seconds"]), int(measured["peak_bytes"]), sizes)


def _environment() -> dict[str, str]:
    """That of this process, with waiting threads that sleep: spinning ones are slow in company."""
    return {"OMP_WAIT_POLICY": "PASSIVE", **os.environ}


def _reason(code: int, errors: str) -> str:
    if code < 0:
        name = signal.Signals(-code).name
        more = ", perhaps out of memory" if name == "SIGKILL" else ""
        return f"ended by {name}{more}"
    lines = [line for line in errors.splitlines() if line.strip()]
    return lines[-1].strip() if lines else f"exit code {code} without a message"
