"""Run MLC and its peers for experiments; results are cached and shared between them."""

from __future__ import annotations

import time
from contextlib import AbstractContextManager, nullcontext
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from unbend import baselines
from unbend.config import PRESETS
from unbend.disk import hash_array
from unbend.disk.provenance import PEERS
from unbend.experiments import stages
from unbend.experiments.memory import Arrays, remember
from unbend.experiments.problem import Problem
from unbend.metrics import Scores, chance_scores, clustering_scores
from unbend.networks import save_encoder
from unbend.pretrain import embed_all
from unbend.progress import Progress, Tick, console_progress, silent
from unbend.samples import prepare

__all__ = ["ImageRun", "RunResult", "Runner", "NO_VIEWS", "show_progress"]

STAGE_3 = ("self-labelling", "SPICE-Semi")  # the last step of peers on images

# One view, the sample itself: no augmentation, no neighbour.
NO_VIEWS: dict[str, Any] = {
    "views.n_views": 1,
    "views.n_neighbors": 0,
    "views.noise": 0.0,
    "views.augmentation.crop_scale": (1.0, 1.0),
    "views.augmentation.crop_ratio": (1.0, 1.0),
    "views.augmentation.flip": 0.0,
    "views.augmentation.grayscale": 0.0,
    "views.augmentation.jitter_probability": 0.0,
    "views.augmentation.blur": 0.0,
    "views.augmentation.rotation": 0.0,
    "views.augmentation.shear": 0.0,
    "views.augmentation.shift": 0.0,
    "views.augmentation.noise": 0.0,
}


class RunResult(NamedTuple):
    """Labels and features of one run, and its seconds without stage 1."""

    labels: NDArray[np.int64]
    Z: NDArray[np.floating]
    seconds: float


class ImageRun(NamedTuple):
    """A run of a peer on images.

    ``before`` are the labels before the last step, ``Z`` the features of the backbone that it
    started from. ``seconds`` are those after stage 1, with the ``stage3`` that they include.
    """

    labels: NDArray[np.int64]
    Z: NDArray[np.floating]
    seconds: float
    before: NDArray[np.int64]
    stage1: float
    stage3: float

    @property
    def result(self) -> RunResult:
        """What it shares with runs of other methods."""
        return RunResult(self.labels, self.Z, self.seconds)


class Runner:
    """Runs methods on one problem; slow results are cached on disk and shared by experiments.

    Parameters
    ----------
    problem : Problem
        Samples, true labels for scoring, and settings of MLC.
    progress : callable
        Receives a tick for each piece of work.
    cached : bool
        False computes everything again, to measure time.
    """

    def __init__(
        self, problem: Problem, progress: Progress = silent, *, cached: bool = True
    ) -> None:
        self.problem, self.progress, self.cached = problem, progress, cached
        self._stage1: dict[int, stages.Stage1] = {}
        self._starts: dict[tuple[str, int], stages.Stage1] = {}

    def stage1(self, seed: int) -> stages.Stage1:
        """The network after stage 1 for this seed."""
        if seed not in self._stage1:
            self._stage1[seed] = stages.stage1(
                self.problem, seed, cached=self.cached, progress=self.progress
            )
        return self._stage1[seed]

    def mlc(
        self,
        seed: int,
        *,
        stage1_seed: int | None = None,
        changes: dict[str, Any] | None = None,
        random_start: bool = False,
    ) -> RunResult:
        """Stage 2 of MLC from the features of ``stage1_seed`` (by default ``seed``).

        ``changes`` are settings of stage 2 and of the views; ``random_start`` skips stage 1.
        """
        first = seed if stage1_seed is None else stage1_seed
        none = {"pretrain.method": "none"} if random_start else {}
        problem = self.problem.with_config({**(changes or {}), **none})

        def work() -> Arrays:
            begin = None if random_start else self.stage1(first)
            result = stages.stage2(problem, begin, seed, cached=self.cached, progress=self.progress)
            return _pack(result.labels, result.Z, result.seconds)

        key = ["mlc", problem.config.to_dict(), problem.fingerprint, first, seed, random_start]
        return _unpack(remember("stage2", key, work, cached=self.cached))

    def peer(self, name: str, seed: int, *, stage1_seed: int | None = None) -> RunResult:
        """A deep peer (NMCE, CPP, PRODSC) that starts from the same features as MLC.

        Its published settings and those of the problem override the preset.
        """
        first = seed if stage1_seed is None else stage1_seed
        config = self.problem.config
        model = getattr(baselines, name)(
            self.problem.k,
            preset=config.preset,
            random_state=seed,
            settings=_differences(config.to_dict(), PRESETS[config.preset].to_dict()),
        )

        def work() -> Arrays:
            network = self.stage1(first).network
            begin = time.perf_counter()
            model.set_params(verbose=0).fit(self.problem.X, network=network)
            self.progress(Tick(name, 1, 1))
            Z = model.transform(self.problem.X)
            return _pack(model.labels_, Z, time.perf_counter() - begin)

        stage1 = self.problem.config.to_dict()
        key = [name, _plain(model), stage1, self.problem.fingerprint, first, seed]
        return _unpack(remember("peers", key, work, cached=self.cached, rooms=PEERS))

    def classic(self, method: str, X: NDArray[Any], seed: int, **params: Any) -> RunResult:
        """A method of the benchmark on vectors or flattened images.

        ``params`` override its default parameters.
        """
        flat = X.reshape(len(X), -1).astype(np.float64)
        model = baselines.METHODS[method](self.problem.k, random_state=seed, **params)

        def work() -> Arrays:
            begin = time.perf_counter()
            labels = model.fit(flat).labels_
            self.progress(Tick(method, 1, 1))
            return _pack(labels, flat[:0], time.perf_counter() - begin)

        key = [method, model.get_params(), hash_array(flat), seed]
        kept = remember("classics", key, work, cached=self.cached, rooms=PEERS)
        return _unpack(kept)._replace(Z=flat)

    def from_images(self, method: str, start: str, seed: int, **params: Any) -> ImageRun:
        """A peer with heads on images, from a backbone that ``start`` (as "simclr") trained."""
        problem = self.problem.with_config({"pretrain.method": start})

        def work() -> Arrays:
            if (start, seed) not in self._starts:  # several peers start from the same network
                self._starts[start, seed] = stages.stage1(
                    problem, seed, cached=self.cached, progress=self.progress
                )
            first = self._starts[start, seed]
            with torch.inference_mode():
                h = embed_all(first.network, prepare(problem.X)[0]).numpy()
            model = baselines.METHODS[method](problem.k, random_state=seed, **params)
            begin = time.perf_counter()
            with TemporaryDirectory() as folder:
                save_encoder(first.network, folder)
                model.set_params(backbone=folder).fit(problem.X)
            self.progress(Tick(f"{method} on images", 1, 1))
            last = sum(model.seconds_.get(stage, 0.0) for stage in STAGE_3)
            times = {"stage1": np.array(first.seconds), "stage3": np.array(last)}
            before = getattr(model, "clustering_labels_", model.labels_)
            found = _pack(model.labels_, h, time.perf_counter() - begin)
            return {**found, **times, "before": before}

        key = [method, params, problem.config.to_dict(), problem.fingerprint, seed]
        kept = remember("image-peers", key, work, cached=self.cached, rooms=PEERS)
        times = (float(kept[name]) for name in ("stage1", "stage3"))
        return ImageRun(*_unpack(kept), kept["before"], *times)

    def features(self, seed: int) -> NDArray[np.float64]:
        """Z after stage 1."""
        return stages.features(self.problem, self.stage1(seed).network)

    def score(self, found: RunResult) -> Scores:
        """Against the true labels."""
        return clustering_scores(self.problem.y, found.labels)

    def chance(self) -> Scores:
        """Scores of random clusters of the true sizes."""
        return chance_scores(self.problem.y, self.problem.y)


def show_progress(verbose: bool) -> AbstractContextManager[Progress]:
    """Progress of an experiment on the console, or none."""
    return console_progress() if verbose else nullcontext(silent)


def _differences(tree: dict[str, Any], other: dict[str, Any], path: str = "") -> dict[str, Any]:
    """Settings that differ between two configs, by dotted name."""
    found: dict[str, Any] = {}
    for name, value in tree.items():
        if isinstance(value, dict):
            found |= _differences(value, other[name], f"{path}{name}.")
        elif value != other[name] and name != "preset":
            found[path + name] = value
    return found


def _pack(labels: NDArray[Any], Z: NDArray[Any], seconds: float) -> Arrays:
    return {"labels": labels, "Z": Z, "seconds": np.array(seconds)}


def _unpack(arrays: Arrays) -> RunResult:
    return RunResult(arrays["labels"], arrays["Z"], float(arrays["seconds"]))


def _plain(model: Any) -> dict[str, Any]:
    return {k: v for k, v in model.get_params().items() if k not in ("verbose", "device")}
