"""What ``unbend cluster`` does, as one function."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unbend import __version__
from unbend.devices import make_fabric
from unbend.estimator import MLC, load
from unbend.experiments.tables import Table
from unbend.parameters import check_parameters
from unbend.progress import Progress, silent
from unbend.runs import Log, RunDirectory, combined_hash, read_json
from unbend.training import Checkpoints
from unbend.workflows.inputs import Inputs, read_inputs
from unbend.workflows.kept import stage1_shelf
from unbend.workflows.processes import is_first, n_processes
from unbend.workflows.results import write_results

__all__ = ["ClusterResult", "cluster", "default_out"]

# Exact nearest neighbours take time that grows with the square of the rows trained on.
_ALL_UP_TO, _ELSE = 100_000, 50_000
_MOST_COMPARED = 20_000  # spectral clustering of the peers
_MINUTES = 1.0  # between two checkpoints


@dataclass(frozen=True)
class ClusterResult:
    """What a clustering came to."""

    run: Path
    n_samples: int
    n_clusters: int
    n_trained: int
    n_broken: int
    seconds: float
    scores: dict[str, Any] | None
    report: Path | None
    table: Table | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain dict, ready for JSON."""
        return {
            "run": str(self.run),
            "n_samples": self.n_samples,
            "n_clusters": self.n_clusters,
            "n_trained": self.n_trained,
            "n_broken": self.n_broken,
            "seconds": round(self.seconds, 1),
            "scores": self.scores,
            "report": None if self.report is None else str(self.report),
        }

    def summary(self) -> str:
        """A few lines for people."""
        parts = [f"{self.n_samples} samples in {self.n_clusters} clusters, {self.seconds:.0f} s"]
        if self.n_trained < self.n_samples:
            parts.append(f"trained on {self.n_trained}, the rest labelled by the model")
        if self.n_broken:
            parts.append(f"{self.n_broken} broken files left out, see broken.csv")
        text = "; ".join(parts) + f"; run written to {self.run}/"
        return text if self.report is None else f"{text}\nreport: {self.report}"


def cluster(
    input: Any,
    *,
    out: str | Path | None = None,
    n_clusters: int | str = "auto",
    labels: str | None = None,
    encoder: str = "auto",
    image_size: int | None = None,
    preset: str = "auto",
    seed: int = 0,
    device: str = "auto",
    precision: str = "32-true",
    settings: dict[str, Any] | None = None,
    train_on: int | str = "auto",
    workers: int | None = None,
    max_broken: float = 0.1,
    compare: bool = False,
    report: bool = True,
    overwrite: bool = False,
    resume: bool = False,
    progress: Progress = silent,
) -> ClusterResult:
    """Cluster any input and leave a run directory; the function behind ``unbend cluster``.

    Parameters
    ----------
    input : path, str or array
        Whatever :func:`unbend.data.open_source` reads: a folder of images, a list of image
        paths, an array file, or a named set.
    out : path, optional
        Run directory, by default ``runs/NAME``.
    n_clusters : int or "auto"
    labels : str, optional
        True labels for scoring: a column, a file, or ``"folders"``. They are looked at only
        after the clustering.
    encoder : str
        A pre-trained encoder of images, a checkpoint, ``"none"``, or ``"auto"``: none for gray
        images up to 40 pixels wide, else ``"lite2"``.
    image_size, workers, max_broken
        How image files are decoded, see :func:`unbend.data.open_source`.
    preset, seed, device, precision, settings
        As in :class:`unbend.MLC`.
    train_on : int, "all" or "auto"
        Rows to train on, drawn by the seed; all rows are then labelled piece by piece. "auto"
        takes all up to 100,000, else 50,000.
    compare : bool
        Score k-means and spectral clustering too; needs true labels.
    report : bool
        Write ``report.html``.
    overwrite : bool
        Replace an earlier run in ``out``.
    resume : bool
        Continue an unfinished run in ``out``; a finished one of the same options is returned.
    progress : callable
        Receives :class:`~unbend.progress.Tick`.

    Returns
    -------
    ClusterResult
    """
    start = time.perf_counter()
    if resume and overwrite:
        raise ValueError("--resume and --overwrite contradict each other; give one of them")
    # Under torchrun the first process owns the directory; the others only help to train.
    leads = is_first()
    run = RunDirectory(
        out or default_out(input), overwrite=overwrite and leads, resume=resume or not leads
    )
    model = MLC(
        n_clusters,
        preset=preset,
        settings=settings or None,
        device=device,
        precision=precision,
        random_state=seed,
    )
    check_parameters(model)  # before minutes of decoding
    log = Log()
    with log.listening():
        with log.stage("reading"):
            inputs = read_inputs(
                input,
                labels=labels,
                encoder=encoder,
                image_size=image_size,
                device=device,
                workers=workers,
                max_broken=max_broken,
                progress=progress,
            )
        if compare:
            _check_comparable(inputs, str(input))
        rows = _rows_to_train_on(train_on, inputs.n_samples, seed)
        job = _Job(run, model, inputs, rows, log, progress)
        identity = job.identity(n_clusters, encoder, image_size, preset, seed, precision, settings)
        if resume and run.finished:
            return _found(run, identity, start)
        return job.work(identity, str(input), compare=compare, report=report, start=start)


def default_out(input: Any) -> Path:
    """``runs/`` and the name of the input."""
    name = Path(input).resolve().stem if isinstance(input, (str, Path)) else "array"
    return Path("runs") / (re.sub(r"[^\w.-]+", "-", str(name)).strip("-.") or "run")


def _check_comparable(inputs: Inputs, spec: str) -> None:
    if inputs.source.y is None:
        raise ValueError(
            f"--compare needs true labels, and {spec!r} has none; leave it out or give --labels"
        )
    if inputs.n_samples > _MOST_COMPARED:
        raise ValueError(
            f"--compare is for up to {_MOST_COMPARED} samples, got {inputs.n_samples}; leave it out"
        )


def _rows_to_train_on(train_on: int | str, n: int, seed: int) -> NDArray[np.int64] | None:
    """Sorted rows drawn by the seed, or None for all."""
    if train_on == "auto":
        train_on = n if n <= _ALL_UP_TO else _ELSE
    if train_on == "all" or train_on == n:
        return None
    if not isinstance(train_on, int) or not 2 <= train_on < n:
        raise ValueError(
            f"`train_on` must be all, auto or from 2 to n_samples={n}, got {train_on!r}; try all"
        )
    chosen = np.random.default_rng(seed).choice(n, train_on, replace=False)
    return np.sort(chosen).astype(np.int64)


@dataclass
class _Job:
    """One clustering on its way through the stages."""

    run: RunDirectory
    model: MLC
    inputs: Inputs
    rows: NDArray[np.int64] | None
    log: Log
    progress: Progress

    def identity(
        self,
        n_clusters: int | str,
        encoder: str,
        image_size: int | None,
        preset: str,
        seed: int,
        precision: str,
        settings: dict[str, Any] | None,
    ) -> dict[str, Any]:
        """All that decides the labels: a run is continued only by a call of the same."""
        return {
            "version": __version__,
            "data": combined_hash([*self.inputs.source.hashes, str(self.inputs.n_samples)]),
            "n_clusters": n_clusters,
            "encoder": encoder,
            "image_size": image_size,
            "preset": preset,
            "seed": seed,
            "precision": precision,
            "settings": settings or {},
            "train_on": self.inputs.n_samples if self.rows is None else len(self.rows),
        }

    def work(
        self, identity: dict[str, Any], spec: str, *, compare: bool, report: bool, start: float
    ) -> ClusterResult:
        """Train or continue, then write everything."""
        self._check_count()
        if not is_first():
            return self._help(identity, start)
        try:
            self.run.begin(identity)
            self._meet()
            if self._trained():
                self.model = load(self.run.path / "model")
            else:
                self._train()
                self.run.begin_results(identity)
                self.model.save(self.run.path / "model")
            with self.log.stage("writing"):
                table, scores, page = write_results(
                    self.run,
                    self.model,
                    self.inputs,
                    identity=identity,
                    spec=spec,
                    rows=self.rows,
                    log=self.log,
                    compare=compare,
                    report=report,
                    progress=self.progress,
                )
        except (ValueError, TypeError, ImportError):
            self.run.abandon()  # wrong input leaves nothing behind
            raise
        except OSError as error:
            raise self._no_room(error) from error
        self.run.finish()
        return self._result(identity, start, scores=scores, report=page, table=table)

    def _help(self, identity: dict[str, Any], start: float) -> ClusterResult:
        """What the other processes of a torchrun do: train along, write nothing."""
        self._meet()
        if self._trained():
            self.model = load(self.run.path / "model")
        else:
            self._train()
        return self._result(identity, start, scores=None, report=None, table=None)

    def _result(self, identity: dict[str, Any], start: float, **found: Any) -> ClusterResult:
        return ClusterResult(
            run=self.run.path,
            n_samples=self.inputs.n_samples,
            n_clusters=self.model.n_clusters_,
            n_trained=identity["train_on"],
            n_broken=len(self.inputs.source.broken),
            seconds=time.perf_counter() - start,
            **found,
        )

    def _meet(self) -> None:
        """Wait until the first process has made the directory ready."""
        if n_processes() > 1:
            make_fabric(self.model.device, self.model.precision).barrier()

    def _trained(self) -> bool:
        """Whether an earlier process got as far as to the results."""
        return self.run.has_begun_results() and (self.run.path / "model").is_dir()

    def _no_room(self, error: OSError) -> OSError:
        """A disk that fills up costs no more than what was not saved yet."""
        training = self.run.checkpoints / "training"
        saved = training.is_dir() and any(training.glob("checkpoint-*"))
        if not saved:
            self.run.abandon()
        remedy = "free space, then pass --resume" if saved else "free space or name another -o"
        reason = error.strerror or str(error)
        return OSError(f"cannot write the run to {str(self.run.path)!r}: {reason}; {remedy}")

    def _check_count(self) -> None:
        k, n = self.model.n_clusters, self.inputs.n_samples
        rows = n if self.rows is None else len(self.rows)
        if isinstance(k, int) and k > rows:
            raise ValueError(
                f"-k {k} must be at most the {rows} samples to train on; take fewer clusters"
            )

    def _train(self) -> None:
        samples: Any = self.inputs.source.X
        if self.inputs.encoder is not None:
            self.model.set_params(encoder=self.inputs.encoder)
            with self.log.stage("encoding"):
                samples = self.inputs.encoded(self.progress)
                if self.rows is not None:  # all of them are kept on disk by now
                    samples = self.inputs.encoded(self.progress, self.rows)
        elif self.rows is not None:
            samples = np.asarray(samples[self.rows])
        with self.log.stage("training"):
            shelf = stage1_shelf(self.model.device)
            kept = Checkpoints(self.run.checkpoints / "training", every=_MINUTES, shelf=shelf)
            self.model.fit(samples, checkpoints=kept, progress=self.progress)


def _found(run: RunDirectory, identity: dict[str, Any], start: float) -> ClusterResult:
    """The result of a run that is finished already."""
    manifest = read_json(run.path / "manifest.json")
    run.check_finished(identity, manifest.get("identity"))
    page, metrics = run.path / "report.html", run.path / "metrics.json"
    return ClusterResult(
        run=run.path,
        n_samples=int(manifest["n_samples"]),
        n_clusters=int(manifest["n_clusters"]),
        n_trained=int(manifest["n_trained"]),
        n_broken=int(manifest["n_broken"]),
        seconds=time.perf_counter() - start,
        scores=read_json(metrics) if metrics.is_file() else None,
        report=page if page.is_file() else None,
    )
