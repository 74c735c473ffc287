"""Run the units of a job on a Ray cluster; Ray restarts workers that die."""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Iterator
from contextlib import redirect_stdout
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from unbend.progress import Progress, Tick, silent
from unbend.runs.manifest import hash_files
from unbend.workflows.result import Result
from unbend.workflows.shards import (
    Job,
    ShardedOutput,
    Unit,
    UnitResult,
    Worker,
    identity_of,
    list_units,
)

__all__ = ["ENGINES", "ShardResult", "run_on_ray"]

ENGINES = ("local", "ray")


@dataclass(frozen=True)
class ShardResult(Result):
    """The result of a job over many files."""

    out: Path
    n_samples: int
    n_parts: int
    n_computed: int
    n_broken: int
    seconds: float

    def summary(self) -> str:
        """One line of text."""
        broken = f", {self.n_broken} broken files left out" if self.n_broken else ""
        return (
            f"{self.n_samples} samples in {self.n_parts} parts, {self.n_computed} of them computed "
            f"now{broken}, {self.seconds:.0f} s; written to {self.out}/"
        )


def run_on_ray(
    job: Job,
    input: str | Path,
    *,
    workers: int | None = None,
    resume: bool = False,
    progress: Progress = silent,
) -> ShardResult:
    """Run a job over a folder of parquet files, tar files or images on a Ray cluster.

    Parameters
    ----------
    job : Job
    input, job.out : path
        On a file system that all machines of the cluster see.
    workers : int, optional
        Processes at a time; by default one per core of the cluster.
    resume : bool
        Continue a job that was stopped: parts that are there are not computed again.
    """
    start = time.perf_counter()
    ray = _import_ray()
    units = list_units(input)
    out = ShardedOutput(job.out)
    job = replace(job, out=str(out.folder))  # workers start in other folders
    out.begin(identity_of(job, units, _model(job)), resume=resume)
    todo = out.missing(units)
    done = len(units) - len(todo)
    progress(Tick("shards", done, len(units)))
    with redirect_stdout(sys.stderr):  # Ray prints there that a worker died
        for part in _parts(ray, job, todo, workers) if todo else ():
            if part.error:
                raise ValueError(f"cannot finish {str(job.out)!r}: {part.error}")
            done += 1
            progress(Tick("shards", done, len(units)))
    total = out.finish(units)
    return ShardResult(
        out=Path(job.out), n_computed=len(todo), seconds=time.perf_counter() - start, **total
    )


def _parts(ray: Any, job: Job, todo: list[Unit], workers: int | None) -> Iterator[UnitResult]:
    started = not ray.is_initialized()
    if started:
        # RAY_ADDRESS names a cluster; without it Ray starts one on this machine.
        local = {} if "RAY_ADDRESS" in os.environ else {"num_cpus": workers or os.cpu_count()}
        ray.init(include_dashboard=False, log_to_driver=False, logging_level="ERROR", **local)
    try:
        ray.data.DataContext.get_current().enable_progress_bars = False
        cores = int(ray.cluster_resources().get("CPU", 1))
        size = min(len(todo), workers or cores)
        rows = ray.data.from_items(
            [{"number": u.number, "kind": u.kind, "root": u.root, "files": list(u.files)}
             for u in todo],
            override_num_blocks=len(todo),
        )  # fmt: skip
        done = rows.map(
            _Actor,
            fn_constructor_args=(job,),
            compute=ray.data.ActorPoolStrategy(size=size),
            num_cpus=1,
        )
        for row in done.iter_rows():
            yield UnitResult(**row)
    finally:
        if started:
            ray.shutdown()


class _Actor:
    """A worker in a process of Ray."""

    def __init__(self, job: Job) -> None:
        self.worker = Worker(job)

    def __call__(self, row: dict[str, Any]) -> dict[str, Any]:
        unit = Unit(int(row["number"]), row["kind"], row["root"], tuple(row["files"]))
        return asdict(self.worker(unit))


def _model(job: Job) -> str:
    """A hash of the model, so that shards of two models are never mixed."""
    if job.command == "predict":
        run = Path(job.run)
        return str(hash_files(run / "model" if (run / "model").is_dir() else run))
    from unbend.networks.encoders import load_encoder

    return load_encoder(job.encoder).fingerprint


def _import_ray() -> Any:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # otherwise Ray sends usage statistics
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
    try:
        import ray
        import ray.data
    except ImportError as error:
        raise ImportError("--engine ray needs Ray: pip install 'unbend[ray]'") from error
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    return ray
