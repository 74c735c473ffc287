"""The function behind ``unbend update``."""

from __future__ import annotations

import csv
import time
from contextlib import nullcontext
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np

from unbend.estimator import MLC
from unbend.notebook import count
from unbend.progress import Progress, silent
from unbend.runs import check_run, labels_file, needs_mark, record_file, run_lock, write_csv
from unbend.sources import open_source
from unbend.workflows.label_rows import label_rows
from unbend.workflows.predict import check_out, list_broken, load_run, reading_options
from unbend.workflows.result import NOT_IN_JSON, Result

__all__ = ["HISTORY", "UpdateResult", "update"]

HISTORY = "updates.csv"
_COLUMNS = ["time", "input", "samples", "fitted", "waiting", "new_clusters"]


@dataclass(frozen=True)
class UpdateResult(Result):
    """The result of an update."""

    out: Path
    n_samples: int
    n_fitted: int
    n_waiting: int
    new_clusters: list[dict[str, int]]
    n_broken: int
    seconds: float
    read: str = field(default="", metadata=NOT_IN_JSON)  # what the input was

    def summary(self) -> str:
        """What fitted, what is new, and what waits."""
        lines = [self.read, f"{self.n_fitted} of {count(self.n_samples, 'sample')} fit a cluster"]
        for row in self.new_clusters:
            waited = f", {row['had_waited']} of them had waited" if row["had_waited"] else ""
            lines.append(f"new cluster {row['cluster']}: {count(row['size'], 'sample')}{waited}")
        if not self.new_clusters:
            lines.append("no new cluster")
        lines.append(f"{count(self.n_waiting, 'sample')} wait for others like them (cluster -1)")
        lines.append(f"{self.seconds:.0f} s; labels written to {self.out}, model updated")
        return "\n".join(lines)


def update(
    run: str | Path,
    input: Any,
    *,
    out: str | Path = "labels.csv",
    min_size: int | None = None,
    overwrite: bool = False,
    id: str | None = None,
    max_broken: float = 0.1,
    strict: bool = False,
    encoder: str = "auto",
    device: str = "auto",
    progress: Progress = silent,
) -> UpdateResult:
    """Label samples that came after a run, and keep new clusters among them in its model.

    See :meth:`unbend.MLC.update`. The labels of the run stay as they are; its ``updates.csv`` gets
    a row. All of the input is held in memory.

    Parameters
    ----------
    run : path
        A run directory, or a directory that :meth:`unbend.MLC.save` wrote. Its model is replaced.
    input : path, str, array, table or list
        Samples of the kind that the model was fitted on.
    out : path
        Table of their labels, ``.csv`` or ``.parquet``; -1 is a sample that fits nowhere yet.
    min_size : int, optional
        Fewest samples of a new cluster.
    overwrite, id, max_broken, strict, encoder, device, progress
        As in :func:`unbend.workflows.predict`.
    """
    start = time.perf_counter()
    run = Path(run)
    if str(out) == "-":
        raise ValueError("update writes a table; name a .csv or .parquet file with -o")
    out, format = check_out(Path(out), None, overwrite, False, False)
    check_run(run, "model")
    is_run = (run / "model").is_dir()
    with run_lock(run) if is_run else nullcontext():
        model = load_run(run, None if encoder == "auto" else encoder)
        model.set_params(device=device)
        source = open_source(
            input,
            image_size=model.image_side,
            max_broken=max_broken,
            strict=strict,
            progress=progress,
            **reading_options(model, input, id),
        )
        X = np.array(source.X)
        found = model.update(X, min_size=min_size)
        rows = label_rows(source.names, model.assess(X), labels=found.labels)
        with labels_file(out, mark=format == "csv" and needs_mark(source.names)) as write:
            write(rows)
        name = str(input) if isinstance(input, (str, Path)) else "the samples"
        _keep(run, model, is_run, name)
    list_broken(out, source)
    last = model.updates_[-1]
    return UpdateResult(
        out, len(source), last["n_fitted"], last["n_waiting"], last["new_clusters"],
        len(source.broken), time.perf_counter() - start, source.describe(),
    )  # fmt: skip


def _keep(run: Path, model: MLC, is_run: bool, name: str) -> None:
    """Replace the model, and add a row to the history of a run."""
    model.save(run / "model" if is_run else run)
    if not is_run:
        return
    for file in sorted((run / "model").iterdir()):
        record_file(run, f"model/{file.name}")
    last = model.updates_[-1]
    new = " ".join(str(row["cluster"]) for row in last["new_clusters"])
    now = datetime.now(timezone.utc).isoformat(timespec="seconds")
    row = [now, name, last["n"], last["n_fitted"], last["n_waiting"], new]
    write_csv(run / HISTORY, _COLUMNS, [*_earlier(run / HISTORY), row])
    record_file(run, HISTORY)


def _earlier(path: Path) -> list[list[str]]:
    """Rows of the history so far."""
    if not path.exists():
        return []
    with path.open(encoding="utf-8-sig", newline="") as file:
        return list(csv.reader(file))[1:]
