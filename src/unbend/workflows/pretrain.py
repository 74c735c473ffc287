"""The function behind ``unbend pretrain``."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from unbend import __version__
from unbend.algorithm import Trained, train_encoder
from unbend.begin import begin
from unbend.config import Config, resolve
from unbend.devices import make_fabric
from unbend.disk import hash_lines
from unbend.metrics import knn_accuracy
from unbend.networks import Network, save_encoder
from unbend.pretrain import METHODS, embed_all
from unbend.progress import Callback, Progress, Tick, every, silent
from unbend.runs import (
    MANIFEST_FORMAT,
    Log,
    RunDirectory,
    check_files,
    read_json,
    software,
)
from unbend.samples import Scaling, prepare
from unbend.sources import Source, open_source
from unbend.training import Checkpoints, steps_of
from unbend.workflows.result import Result
from unbend.workflows.run_files import describe_source, write_broken

__all__ = ["PretrainResult", "pretrain"]

_MOST_SCORED = 5000  # leave-one-out neighbours take quadratic time


@dataclass(frozen=True)
class PretrainResult(Result):
    """The result of pre-training."""

    encoder: Path
    method: str
    n_samples: int
    n_steps: int
    seconds: float
    scores: dict[str, Any] | None

    def summary(self) -> str:
        """A few lines of text."""
        text = (
            f"{self.n_samples} images, {self.n_steps} steps of {self.method}, "
            f"{self.seconds:.0f} s; encoder written to {self.encoder}/"
        )
        if self.scores is None:
            return text
        knn = self.scores["knn_accuracy"]
        return f"{text}\nkNN accuracy {knn['trained']:.3f}, of pixels {knn['pixels']:.3f}"


def pretrain(
    input: Any,
    *,
    method: str = "tcr",
    out: str | Path = "pretrained",
    epochs: int | None = None,
    labels: str | None = None,
    image_size: int | None = None,
    preset: str = "auto",
    seed: int = 0,
    device: str = "auto",
    precision: str = "32-true",
    settings: dict[str, Any] | None = None,
    workers: int | None = None,
    max_broken: float = 0.1,
    every: float = 5.0,
    overwrite: bool = False,
    resume: bool = False,
    progress: Progress = silent,
) -> PretrainResult:
    """Train an image encoder without labels.

    Parameters
    ----------
    input : path, str or array
        Images, as :func:`unbend.sources.open_source` reads them.
    method : {"tcr", "simclr", "moco", "vicreg", "byol", "swav"}
    out : path
        Directory of the encoder: ``encoder.safetensors`` and ``encoder.json`` beside
        ``config.json``, ``history.csv`` and ``manifest.json``. Use it as ``encoder=`` or
        ``pretrain=`` of :class:`unbend.MLC`.
    epochs : int, optional
        Length of the training; by default the preset's.
    labels : str, optional
        True labels. Nearest-neighbour accuracy is then shown during training and written to
        ``metrics.json``. Training never sees them.
    image_size, workers, max_broken
        How image files are decoded, see :func:`unbend.sources.open_source`.
    preset, seed, device, precision, settings
        As in :class:`unbend.MLC`.
    every : float
        Minutes between two checkpoints.
    overwrite : bool
        Replace an earlier encoder in ``out``.
    resume : bool
        Continue an unfinished training in ``out``; the weights end up as if it had never stopped.
        A finished one with the same options is returned.
    progress : callable
        Receives :class:`~unbend.progress.Tick`.

    Returns
    -------
    PretrainResult
    """
    start = time.perf_counter()
    if method not in METHODS:
        raise ValueError(
            f"`method` of pretrain must be one of {', '.join(METHODS)}, got {method!r}; try 'tcr'"
        )
    run = RunDirectory(out, overwrite=overwrite, resume=resume)
    run.check_free()
    log = Log()
    with run, log.listening():
        with log.stage("reading"):
            source = open_source(
                input,
                image_size=image_size,
                workers=workers,
                max_broken=max_broken,
                labels=labels,
                progress=progress,
            )
            if source.kind != "images":
                raise ValueError(
                    f"{str(input)!r} holds vectors, and an encoder is trained on images; vectors "
                    "are clustered directly with unbend cluster"
                )
            samples, scaling = prepare(np.asarray(source.X))
        config = _resolve(scaling.shape, len(samples), preset, method, epochs, settings or {})
        identity = {
            "version": __version__,
            "data": hash_lines([*source.hashes, str(len(samples))]),
            "image_size": image_size,
            "seed": seed,
            "precision": precision,
            "config": config.to_dict(),
        }
        if resume and run.finished:
            return _found(run, identity, method, start)
        job = _Job(run, source, samples, scaling, config, identity, log)
        return job.work(seed, device, precision, every, progress, start)


def _resolve(
    shape: tuple[int, ...],
    n: int,
    preset: str,
    method: str,
    epochs: int | None,
    settings: dict[str, Any],
) -> Config:
    given: dict[str, Any] = {} if epochs is None else {"pretrain.epochs": epochs}
    if "pretrain.method" not in settings:  # as in a file of settings
        given["pretrain.method"] = method
    return resolve(shape, n, preset=preset, given=given, settings=settings)


@dataclass
class _Job:
    """One call of :func:`pretrain`, from the samples to the files."""

    run: RunDirectory
    source: Source
    samples: Tensor
    scaling: Scaling
    config: Config
    identity: dict[str, Any]
    log: Log

    def work(
        self,
        seed: int,
        device: str,
        precision: str,
        minutes: float,
        progress: Progress,
        start: float,
    ) -> PretrainResult:
        """Train or continue, then write everything."""
        self.run.begin(self.identity)
        try:
            with self.log.stage("training"):
                begun = begin(
                    self.samples,
                    self.config,
                    seed=seed,
                    fabric=make_fabric(device, precision),
                    progress=progress,
                    checkpoints=Checkpoints(self.run.checkpoints / "training", minutes),
                    callbacks=self._callbacks(seed),
                    stage1_only=True,
                )
                trained = train_encoder(begun)
        except (ValueError, TypeError, ImportError):
            self.run.abandon()  # wrong input leaves nothing behind
            raise
        with self.log.stage("writing"):
            scores = self._write(trained, seed)
            self.run.publish()
        return PretrainResult(
            self.run.path,
            self.config.pretrain.method,
            len(self.samples),
            len(trained.history),
            time.perf_counter() - start,
            scores,
        )

    def _callbacks(self, seed: int) -> list[Callback]:
        """Measures nearest-neighbour accuracy twenty times during training, if there are labels."""
        if self.source.y is None:
            return []
        chosen, y = self._scored(seed)

        def look(tick: Tick) -> dict[str, float]:
            return {"kNN": knn_accuracy(embed_all(tick.network, chosen), y, _k(y))}

        total = steps_of(self.config.pretrain, len(self.samples))
        return [every(max(1, total // 20), look)]

    def _scored(self, seed: int) -> tuple[Tensor, NDArray[np.int64]]:
        """The samples that are scored, and their true labels."""
        assert self.source.y is not None
        n = len(self.samples)
        rows = np.sort(np.random.default_rng(seed).permutation(n)[:_MOST_SCORED])
        return self.samples[rows], np.asarray(self.source.y)[rows]

    def _write(self, trained: Trained, seed: int) -> dict[str, Any] | None:
        self.run.begin_results(self.identity)
        self.run.write_history(trained.history)
        self.run.write_json("config.json", {"seed": seed, **self.config.to_dict()})
        write_broken(self.run, self.source)
        scores = None if self.source.y is None else self._scores(trained.network, seed)
        if scores is not None:
            self.run.write_json("metrics.json", scores)
        self.run.write_json("manifest.json", self._manifest(trained, seed))
        save_encoder(
            trained.network,
            self.run.results,
            shape=self.scaling.shape,
            config=self.config.network,
            scale=(self.scaling.offset, self.scaling.scale),
        )
        return scores

    def _scores(self, network: Network, seed: int) -> dict[str, Any]:
        chosen, y = self._scored(seed)
        k = _k(y)
        return {
            "data": self.source.name,
            "split": self.source.split,
            "n": len(y),
            "k": k,
            "knn_accuracy": {
                "trained": knn_accuracy(embed_all(network, chosen), y, k),
                "pixels": knn_accuracy(chosen, y, k),
            },
        }

    def _manifest(self, trained: Trained, seed: int) -> dict[str, Any]:
        source = self.source
        return {
            "format": MANIFEST_FORMAT,
            "software": software(__version__),
            "identity": self.identity,
            "data": describe_source(source),
            "method": self.config.pretrain.method,
            "n_samples": len(self.samples),
            "n_steps": len(trained.history),
            "n_broken": len(source.broken),
            "seed": seed,
            "seconds": self.log.seconds,
            "warnings": self.log.warnings,
        }


def _k(y: NDArray[np.int64]) -> int:
    return min(20, len(y) - 1)


def _found(
    run: RunDirectory, identity: dict[str, Any], method: str, start: float
) -> PretrainResult:
    """The result of a training that was finished before."""
    run.complete()
    check_files(run.path)
    manifest = read_json(run.path / "manifest.json")
    run.check_finished(identity, manifest.get("identity"))
    metrics = run.path / "metrics.json"
    return PretrainResult(
        run.path,
        method,
        int(manifest["n_samples"]),
        int(manifest["n_steps"]),
        time.perf_counter() - start,
        read_json(metrics) if metrics.is_file() else None,
    )
