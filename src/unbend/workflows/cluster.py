"""The function behind ``unbend cluster``."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unbend import __version__
from unbend.devices import make_fabric
from unbend.disk import check_whole, hash_lines
from unbend.estimator import MLC, load
from unbend.metrics.tables import Table
from unbend.notebook import choices, count
from unbend.parameters import check_parameters
from unbend.pixels.duplicates import DuplicateGroup
from unbend.progress import Progress, Tick, silent
from unbend.runs import Log, RunDirectory, check_files, read_json
from unbend.training import Checkpoints
from unbend.workflows.inputs import Inputs, read_inputs
from unbend.workflows.inspect import find_duplicates, without_repeats
from unbend.workflows.processes import is_first, n_launched
from unbend.workflows.result import NOT_IN_JSON, Result
from unbend.workflows.run_files import Written, write_run_files
from unbend.workflows.stage1_cache import stage1_cache

__all__ = ["ClusterResult", "cluster", "default_out"]

# The search for exact nearest neighbours takes time quadratic in the number of rows.
_ALL_UP_TO, _ELSE = 100_000, 50_000
_MOST_COMPARED = 20_000  # limit of the spectral clustering that is compared
_MINUTES = 1.0  # between two checkpoints


@dataclass(frozen=True)
class ClusterResult(Result):
    """The result of a clustering."""

    run: Path
    n_samples: int
    n_clusters: int
    n_trained: int
    n_broken: int
    seconds: float
    scores: dict[str, Any] | None
    report: Path | None
    table: Table | None = field(default=None, metadata=NOT_IN_JSON)
    read: str = ""  # what the input was, and what it is clustered with
    chosen: str = ""  # which preset, encoder, neighbours and labelling, and why
    # what may be broken: a file or a row
    unit: str = field(default="file", metadata=NOT_IN_JSON)

    def summary(self) -> str:
        """A few lines of text."""
        samples, clusters = count(self.n_samples, "sample"), count(self.n_clusters, "cluster")
        parts = [f"{samples} in {clusters}, {self.seconds:.0f} s"]
        if self.n_trained < self.n_samples:
            parts.append(f"trained on {self.n_trained}, the rest labelled by the model")
        if self.n_broken:
            broken = count(self.n_broken, f"broken {self.unit}")
            parts.append(f"{broken} left out, see broken.csv")
        text = "; ".join(parts) + f"; run written to {self.run}/"
        text = "\n".join(line for line in (self.read, self.chosen, text, self._scored()) if line)
        return text if self.report is None else f"{text}\nreport: {self.report}"

    def _scored(self) -> str:
        """The scores against the true labels, if there are any."""
        if self.scores is None:
            return ""
        found, chance = self.scores["MLC"], self.scores.get("chance") or {}
        parts = [f"{key.upper()} {found[key]:.3f}" for key in ("acc", "nmi", "ari")]
        by_chance = f"; by chance ACC {chance['acc']:.3f}" if "acc" in chance else ""
        return f"scores on {self.scores['n']} true labels: {', '.join(parts)}{by_chance}"


def cluster(
    input: Any,
    *,
    out: str | Path | None = None,
    n_clusters: int | str = "auto",
    min_clusters: int | None = None,
    max_clusters: int | None = None,
    noise: bool = False,
    labels: Any = None,
    columns: str | Sequence[str] | None = None,
    exclude: str | Sequence[str] | None = None,
    id: str | None = None,
    text: str | None = None,
    encoder: str = "auto",
    image_size: int | None = None,
    preset: str = "auto",
    budget: str | float = "normal",
    seed: int = 0,
    device: str = "auto",
    precision: str = "32-true",
    settings: dict[str, Any] | None = None,
    train_on: int | str = "auto",
    workers: int | None = None,
    max_broken: float = 0.1,
    strict: bool = False,
    drop_duplicates: bool = False,
    compare: bool = False,
    report: bool = True,
    overwrite: bool = False,
    resume: bool = False,
    progress: Progress = silent,
) -> ClusterResult:
    """Cluster any input and write a run directory.

    Parameters
    ----------
    input : path, str or array
        Whatever :func:`unbend.sources.open_source` reads: a folder of images or texts, a table,
        a list of image paths, an array, a named set.
    out : path, optional
        Run directory, by default ``runs/NAME``.
    n_clusters : int or "auto"
    min_clusters, max_clusters : int, optional
        Bounds for ``"auto"``.
    noise : bool
        Give outliers the label -1.
    labels : str, optional
        True labels for scoring: a column, a file, or ``"folders"``. They are read only after
        the clustering.
    columns, exclude, id, text
        Columns of a table, see :func:`unbend.sources.open_source`.
    encoder : str
        A pre-trained image encoder, a checkpoint, ``"none"``, or ``"auto"``: none for gray images
        up to 40 pixels wide and for gray image files whose pixels separate better, see
        :mod:`unbend.workflows.representation`, else lite2, with
        mirror images up to 10,000. For texts ``"tfidf"`` or a
        sentence encoder.
    image_size, workers, max_broken, strict
        How files are read and what may be skipped, see :func:`unbend.sources.open_source`.
    preset, budget, seed, device, precision, settings
        As in :class:`unbend.MLC`.
    train_on : int, "all" or "auto"
        Number of rows to train on, drawn at random; then all rows are labelled in chunks. "auto"
        takes all up to 100,000, else 50,000.
    drop_duplicates : bool
        Train on one of each group of duplicates: near-duplicates of image files, equal rows of
        others. All samples are labelled; ``duplicates.csv`` lists the groups.
    compare : bool
        Also score k-means and spectral clustering; needs true labels.
    report : bool
        Write ``report.html``.
    overwrite : bool
        Replace an earlier run in ``out``.
    resume : bool
        Continue an unfinished run in ``out``. A finished run with the same options is returned.
    progress : callable
        Receives :class:`~unbend.progress.Tick`.

    Returns
    -------
    ClusterResult
    """
    start = time.perf_counter()
    if resume and overwrite:
        raise ValueError("--resume and --overwrite contradict each other; give one of them")
    # Under torchrun only the first process writes; the others only train.
    leads = is_first()
    if n_clusters != "auto" and (min_clusters or max_clusters):
        given = "--min-clusters" if min_clusters else "--max-clusters"
        raise ValueError(f"{given} is for -k auto, got -k {n_clusters}; leave one of them out")
    found: list[RunDirectory] = []

    def claim(n: int) -> None:
        """Check counts and the run directory before the work, which takes minutes."""
        if n > 1:  # else there is more to say, when it is read
            _check_clusters(n_clusters, n, _rows_to_train_on(train_on, n, seed))
        place = out or default_out(input)
        found.append(RunDirectory(place, overwrite=overwrite and leads, resume=resume or not leads))
        if leads:
            found[0].check_free()

    model = MLC(
        n_clusters,
        min_clusters=min_clusters,
        max_clusters=max_clusters,
        outliers="label" if noise else "score",
        preset=preset,
        budget=budget,
        settings=settings or None,
        device=device,
        precision=precision,
        random_state=seed,
    )
    check_parameters(model)  # fail before decoding images, which takes minutes
    log = Log()
    with log.listening(), log.stage("reading"):
        inputs = read_inputs(
            input,
            labels=labels,
            columns=columns,
            exclude=exclude,
            id=id,
            text=text,
            encoder=encoder,
            image_size=image_size,
            device=device,
            n_clusters=n_clusters,
            workers=workers,
            max_broken=max_broken,
            strict=strict,
            ready=claim,
            progress=progress,
        )
    run = found[0]
    with run, log.listening():
        progress(Tick("reading", 1, 1, text=inputs.source.describe()))  # before the long work
        if compare:
            _check_comparable(inputs, str(input))
        rows = _rows_to_train_on(train_on, inputs.n_samples, seed)
        groups = find_duplicates(inputs, progress) if drop_duplicates else []
        rows = without_repeats(rows, groups, inputs.n_samples)
        job = _Job(run, model, inputs, rows, log, progress, groups)
        identity = job.identity(n_clusters, encoder, image_size, preset, seed, precision, settings)
        extra = {"min_clusters": min_clusters, "max_clusters": max_clusters, "noise": noise}
        identity |= {name: value for name, value in extra.items() if value}
        if resume and run.finished:
            return _found(run, identity, start)
        return job.work(identity, str(input), compare=compare, report=report, start=start)


def default_out(input: Any) -> Path:
    """``runs/NAME``, where NAME is that of the input."""
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
    """Sorted rows drawn at random, or None for all."""
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


def _check_clusters(k: int | str, n: int, rows: NDArray[np.int64] | None) -> None:
    most = n if rows is None else len(rows)
    if isinstance(k, int) and k > most:
        raise ValueError(
            f"-k {k} is more than the {count(most, 'sample')} to train on; take fewer clusters"
        )


@dataclass
class _Job:
    """One call of :func:`cluster`, from the inputs to the files."""

    run: RunDirectory
    model: MLC
    inputs: Inputs
    rows: NDArray[np.int64] | None
    log: Log
    progress: Progress
    groups: list[DuplicateGroup] = field(default_factory=list)

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
        """Everything the labels depend on; a run is resumed only by a call with the same values."""
        return {
            "version": __version__,
            "data": hash_lines([*self.inputs.source.hashes, str(self.inputs.n_samples)]),
            "n_clusters": n_clusters,
            "encoder": encoder,
            "image_size": image_size,
            "preset": preset,
            "budget": self.model.budget,
            "seed": seed,
            "precision": precision,
            "settings": settings or {},
            "train_on": self.inputs.n_samples if self.rows is None else len(self.rows),
        }

    def work(
        self, identity: dict[str, Any], spec: str, *, compare: bool, report: bool, start: float
    ) -> ClusterResult:
        """Train or resume, then write all files."""
        self._check_samples()
        if not is_first():
            return self._help(identity, start)
        try:
            self.run.begin(identity)
            self._meet()
            if self._trained():
                self.model = load(self.run.results / "model")
            else:
                self._train()
                self.model._reading = self.inputs.source.reading or None
                self.run.begin_results(identity)
                self.model.save(self.run.results / "model")
            with self.log.stage("writing"):
                written = write_run_files(
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
                    groups=self.groups,
                )
            self.run.publish()
        except (ValueError, TypeError, ImportError):
            self.run.abandon()  # wrong input leaves nothing behind
            raise
        except OSError as error:
            if error.errno is None:  # raised by unbend, with its own message
                raise
            raise self._no_room(error) from error
        return self._result(identity, start, written)

    def _help(self, identity: dict[str, Any], start: float) -> ClusterResult:
        """Train with the first process and write nothing, as all other processes do."""
        self._meet()
        if self._trained():
            self.model = load(self.run.results / "model")
        else:
            self._train()
        return self._result(identity, start, None)

    def _result(
        self, identity: dict[str, Any], start: float, written: Written | None
    ) -> ClusterResult:
        return ClusterResult(
            run=self.run.path,
            n_samples=self.inputs.n_samples,
            n_clusters=self.model.n_clusters_,
            n_trained=identity["train_on"],
            n_broken=len(self.inputs.source.broken),
            unit=self.inputs.source.unit,
            seconds=time.perf_counter() - start,
            read=self.inputs.source.describe(),
            chosen=self._chosen(written),
            scores=written and written.scores,
            report=written and written.report,
            table=written and written.table,
        )

    def _chosen(self, written: Written | None) -> str:
        model = self.model
        text = model.describe(self.inputs.because)
        text += f"; {choices(model.config_, model.neighbors_, model.labelling_)}"
        selection = model.model_selection_
        if selection is not None:
            text += "\n" + "\n".join(selection.describe())
        if model.outliers == "label":
            n_noise = written.n_noise if written else int((model.labels_ < 0).sum())
            text += f"\n{count(n_noise, 'outlier')} labelled -1"
        return text

    def _meet(self) -> None:
        """Wait until the first process has prepared the directory."""
        if n_launched() > 1:
            make_fabric(self.model.device, self.model.precision).barrier()

    def _trained(self) -> bool:
        """Whether an earlier process had finished training."""
        return self.run.has_begun_results() and (self.run.results / "model").is_dir()

    def _no_room(self, error: OSError) -> OSError:
        """The error to raise when a file cannot be written; saved checkpoints are kept."""
        training = self.run.checkpoints / "training"
        saved = training.is_dir() and any(training.glob("checkpoint-*"))
        if not saved:
            self.run.abandon()
        remedy = "free space, then pass --resume" if saved else "free space or name another -o"
        reason = error.strerror or str(error)
        return OSError(f"cannot write the run to {str(self.run.path)!r}: {reason}; {remedy}")

    def _check_samples(self) -> None:
        """Judge what is known only now: without broken files and duplicates."""
        n = self.inputs.n_samples
        if n == 1 and self.inputs.source.kind == "texts":
            raise ValueError(
                f"{self.inputs.source.names[0]!r} is a single text; give a folder of texts, or "
                "rename a table to .csv"
            )
        _check_clusters(self.model.n_clusters, n, self.rows)

    def _train(self) -> None:
        samples: Any = self.inputs.source.X
        check_whole(samples)
        if self.inputs.encoder is not None:
            self.model.set_params(encoder=self.inputs.encoder)
            with self.log.stage("encoding"):
                samples = self.inputs.encoded(self.progress)
                if self.rows is not None:  # all embeddings are in the cache by now
                    samples = self.inputs.encoded(self.progress, self.rows)
        elif self.rows is not None:
            samples = np.asarray(samples[self.rows])
        if self.inputs.text_encoder is not None:
            self.model.set_params(encoder=self.inputs.text_encoder)
        with self.log.stage("training"):
            stage1 = stage1_cache(self.model.device)
            kept = Checkpoints(self.run.checkpoints / "training", every=_MINUTES, stage1=stage1)
            self.model.fit(samples, checkpoints=kept, progress=self.progress)


def _found(run: RunDirectory, identity: dict[str, Any], start: float) -> ClusterResult:
    """The result of a run that was finished before."""
    run.complete()
    check_files(run.path)
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
