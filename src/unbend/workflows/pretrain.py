"""What ``unbend pretrain`` does, as one function."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from unbend import __version__
from unbend.config import PRESETS, Config, preset_for
from unbend.data import Scaling, Source, open_source, prepare
from unbend.devices import make_fabric
from unbend.metrics import knn_accuracy
from unbend.networks import Network, resolve_backbone, save_encoder
from unbend.parameters import check_config
from unbend.pretrain import METHODS, Trained, as_published, embed_all, train_encoder
from unbend.progress import Progress, silent
from unbend.runs import Log, RunDirectory, combined_hash, read_json, software
from unbend.training import Checkpoints, n_steps

__all__ = ["PretrainResult", "pretrain"]

_MANIFEST_FORMAT = 1
_MOST_SCORED = 5000  # leave-one-out neighbours take time that grows with the square


class _EncoderDirectory(RunDirectory):
    """An encoder beside the record of how it was trained."""

    FILES = (
        "encoder.safetensors",
        "encoder.json",
        "history.csv",
        "config.json",
        "metrics.json",
        "manifest.json",
        "broken.csv",
        "checkpoints",
    )


@dataclass(frozen=True)
class PretrainResult:
    """What a pre-training came to."""

    encoder: Path
    method: str
    n_samples: int
    n_steps: int
    seconds: float
    scores: dict[str, Any] | None

    def to_dict(self) -> dict[str, Any]:
        """Plain dict, ready for JSON."""
        return {
            "encoder": str(self.encoder),
            "method": self.method,
            "n_samples": self.n_samples,
            "n_steps": self.n_steps,
            "seconds": round(self.seconds, 1),
            "scores": self.scores,
        }

    def summary(self) -> str:
        """A few lines for people."""
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
    """Train an encoder of images without labels; the function behind ``unbend pretrain``.

    Parameters
    ----------
    input : path, str or array
        Images, as :func:`unbend.data.open_source` reads them.
    method : {"tcr", "simclr", "moco", "vicreg", "byol", "swav"}
    out : path
        Directory of the encoder: ``encoder.safetensors`` and ``encoder.json`` beside
        ``config.json``, ``history.csv`` and ``manifest.json``. Use it as ``encoder=`` or
        ``pretrain=`` of :class:`unbend.MLC`.
    epochs : int, optional
        Length of the training; by default the preset's.
    labels : str, optional
        True labels: a nearest-neighbour accuracy is then shown on the way and written to
        ``metrics.json``. Training never sees them.
    image_size, workers, max_broken
        How image files are decoded, see :func:`unbend.data.open_source`.
    preset, seed, device, precision, settings
        As in :class:`unbend.MLC`.
    every : float
        Minutes between two checkpoints.
    overwrite : bool
        Replace an earlier encoder in ``out``.
    resume : bool
        Continue an unfinished training in ``out``, to the same weights as if it had never
        stopped; a finished one of the same options is returned.
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
    run = _EncoderDirectory(out, overwrite=overwrite, resume=resume)
    log = Log()
    with log.listening():
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
        config = _config(scaling, len(samples), preset, method, epochs, settings)
        identity = {
            "version": __version__,
            "data": combined_hash([*source.hashes, str(len(samples))]),
            "image_size": image_size,
            "seed": seed,
            "precision": precision,
            "config": config.to_dict(),
        }
        if resume and run.finished:
            return _found(run, identity, method, start)
        job = _Job(run, source, samples, scaling, config, identity, log)
        return job.work(seed, device, precision, every, progress, start)


def _config(
    scaling: Scaling,
    n: int,
    preset: str,
    method: str,
    epochs: int | None,
    settings: dict[str, Any] | None,
) -> Config:
    """The preset with everything resolved, checked."""
    if preset not in ("auto", *PRESETS):
        raise ValueError(f"`preset` must be one of auto, {', '.join(PRESETS)}, got {preset!r}")
    config = PRESETS[preset_for(scaling.shape) if preset == "auto" else preset].for_samples(n)
    changes: dict[str, Any] = {
        "network.backbone": resolve_backbone(config.network.backbone, scaling.shape),
        "pretrain.method": method,
    }
    if epochs is not None:
        changes["pretrain.epochs"] = epochs
    config = config.override(changes).override(settings or {})
    config = as_published(config, settings or {})
    check_config(config)
    return config


@dataclass
class _Job:
    """One pre-training on its way."""

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
        every: float,
        progress: Progress,
        start: float,
    ) -> PretrainResult:
        """Train or continue, then write everything."""
        self.run.begin(self.identity)
        try:
            with self.log.stage("training"):
                trained = train_encoder(
                    self.samples,
                    self.config,
                    seed=seed,
                    fabric=make_fabric(device, precision),
                    progress=progress,
                    checkpoints=Checkpoints(self.run.checkpoints / "training", every),
                    watch=self._watch(seed),
                    watch_every=self._watch_every(),
                )
        except (ValueError, TypeError, ImportError):
            self.run.abandon()  # wrong input leaves nothing behind
            raise
        with self.log.stage("writing"):
            scores = self._write(trained, seed)
        self.run.finish()
        return PretrainResult(
            self.run.path,
            self.config.pretrain.method,
            len(self.samples),
            len(trained.history),
            time.perf_counter() - start,
            scores,
        )

    def _watch(self, seed: int) -> Callable[[Network], Mapping[str, float]] | None:
        """Nearest-neighbour accuracy on the way, where there are labels."""
        if self.source.y is None:
            return None
        chosen, y = self._scored(seed)
        return lambda network: {"kNN": knn_accuracy(embed_all(network, chosen), y, _k(y))}

    def _watch_every(self) -> int:
        """Twenty looks at a training, however long it is."""
        own = self.config.pretrain
        total = n_steps(len(self.samples), own.batch_size, own.epochs, own.min_steps, own.max_steps)
        return max(1, total // 20)

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
        if self.source.broken:
            broken = ([str(item.path), item.reason] for item in self.source.broken)
            self.run.write_table("broken.csv", ["path", "reason"], broken)
        scores = None if self.source.y is None else self._scores(trained.network, seed)
        if scores is not None:
            self.run.write_json("metrics.json", scores)
        self.run.write_json("manifest.json", self._manifest(trained, seed))
        save_encoder(
            trained.network,
            self.run.path,
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
            "format": _MANIFEST_FORMAT,
            "software": software(__version__),
            "identity": self.identity,
            "data": {
                "name": source.name,
                "split": source.split,
                "kind": source.kind,
                "shape": list(source.X.shape),
                "dtype": str(source.X.dtype),
                "sha256": combined_hash(source.hashes),
            },
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
    """The result of a training that is finished already."""
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
