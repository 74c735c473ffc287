"""Compare kinds of views of encoded images: neighbours, cached copies, or live augmentation.

Embeddings and settings are the same for all; only the views differ. Live views pass through the
encoder in every step, so they run only at the small scale, in stage 2 and with one seed, next to
cached views of that seed that start from the same stage 1.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unbend import baselines
from unbend.algorithm import solve
from unbend.begin import begin
from unbend.config import Config, Stage1Config, resolve
from unbend.devices import make_fabric
from unbend.disk import hash_samples
from unbend.experiments.memory import Arrays, remember
from unbend.experiments.problem import Problem, open_problem, seeds_of
from unbend.experiments.runner import show_progress
from unbend.metrics import chance_scores, clustering_scores
from unbend.metrics.tables import SCORE_COLUMNS, Table, mean_sd, score_cells
from unbend.networks import Encoder, load_encoder
from unbend.progress import Progress, Tick, silent
from unbend.samples import Scaling, ViewSampler, prepare
from unbend.samples.encoded_views import CachedViews, LiveViews, augmented, policy_fingerprint

__all__ = ["ViewRunner", "Mode", "run"]

ENCODERS = {"small": "lite0@64", "full": "lite2"}
# The preset's invariance weight is for neighbours, which differ little. Augmented copies differ
# much more, those of neighbours most: with that weight the features would collapse.
LAMBDA = {"pretrain.invariance": Stage1Config().invariance}
_PART = 512  # images augmented at a time


class Mode(NamedTuple):
    """The kind of views in each stage, and whether all but the first start from a neighbour."""

    title: str
    stage1: str
    stage2: str
    neighbors: bool


NEIGHBORS = Mode("neighbours", "neighbors", "neighbors", True)
CACHED = Mode("cached copies", "cached", "cached", False)
BOTH = Mode("cached copies of neighbours", "cached", "cached", True)
LIVE = Mode("cached copies, live in stage 2", "cached", "live", False)


class ViewResult(NamedTuple):
    """Labels of one run, and the seconds of encoding and of everything else."""

    labels: NDArray[np.int64]
    encoding: float
    training: float


def run(
    *,
    data: str | None = None,
    encoder: str | None = None,
    scale: str = "small",
    seeds: int | None = None,
    out: Path | None = None,
    verbose: bool = True,
    settings: dict[str, Any] | None = None,
) -> Table:
    """Each kind of view over seeds, and k-means on the same embeddings.

    ``scale="full"`` uses all images and the encoder lite2, without live views. ``"small"`` uses
    2,000 images and lite0 at 64 pixels. Finished passes of the encoder and finished runs are
    cached.
    """
    problem = open_problem(data or "cifar10:test", scale=scale)
    if problem.X.ndim == 2:
        raise ValueError(f"experiment views needs images, and {problem.name!r} holds vectors")
    config = resolve((1,), len(problem.X), problem.k, preset="vectors", settings=settings)
    each = seeds_of(seeds, 5, 5, scale)
    with show_progress(verbose) as progress:
        runner = ViewRunner(
            replace(problem, config=config), load_encoder(encoder or ENCODERS[scale]), progress
        )
        found = {
            mode.title: [runner.mlc(mode, s) for s in each] for mode in (NEIGHBORS, CACHED, BOTH)
        }
        for mode in (CACHED, BOTH):
            found[f"{mode.title}, the paper's λ"] = [runner.mlc(mode, s, LAMBDA) for s in each]
        for mode in () if scale == "full" else (CACHED, LIVE):
            found[f"{mode.title}, the paper's λ, seed 0 alone"] = [runner.mlc(mode, 0, LAMBDA)]
        rows = [runner.row(f"MLC, {title}", runs) for title, runs in found.items()]
        rows.append(runner.row("k-means", [runner.kmeans(seed) for seed in each]))
    rows.append(["chance, true sizes", *score_cells([chance_scores(problem.y, problem.y)]), "", ""])
    name = "views" if scale == "full" else f"views-{scale}"
    return _table(runner, len(each), rows).saved(out, name)


def _table(runner: ViewRunner, n_seeds: int, rows: list[list[str]]) -> Table:
    views = runner.problem.config.views
    return Table(
        f"views, {runner.problem.describe()}; images seen by {runner.encoder.name} at "
        f"{runner.encoder.resolution} pixels; {n_seeds} seeds, mean ± sd",
        ["method and views", *SCORE_COLUMNS, "encoding, s", "training, s"],
        rows,
        [
            f"A = {views.n_views} views per sample and step, {views.n_cached} cached copies of an "
            f"image, {views.n_neighbors} neighbours; preset {runner.problem.config.preset}, "
            f"where λ is {runner.problem.config.pretrain.invariance:g} d; the paper's is "
            f"{LAMBDA['pretrain.invariance']:.2g} d. It is the one other value that was tried, "
            "because stage 1 on copies of neighbours warned of collapsed features with the "
            "preset's; the scores of the preset's rows were in view then. k-means sees the "
            "embeddings of the images themselves. k is given to both. Seconds are of processor "
            "time, all cores together; cached copies are encoded once for all seeds, and encoding "
            "live views while training is counted as encoding.",
        ],
    )


class ViewRunner:
    """Runs methods on the embeddings of one set of images; slow results are cached on disk."""

    def __init__(self, problem: Problem, encoder: Encoder, progress: Progress = silent) -> None:
        self.problem, self.encoder, self.progress = problem, encoder, progress
        self._passes: dict[int, tuple[NDArray[np.float32], float]] = {}

    @cached_property
    def hashes(self) -> list[str]:
        """Hash of the content of each image."""
        return hash_samples(self.problem.X)

    def encoded(self, copy: int = -1) -> tuple[NDArray[np.float32], float]:
        """Embeddings of all images, or of augmented copy ``copy`` of each, and the seconds."""
        if copy not in self._passes:
            policy = self.problem.config.views.augmentation
            what = policy_fingerprint(policy) if copy >= 0 else ""
            key = [what, copy]
            kept = self._kept("passes", key, lambda: self._pass(copy))
            self._passes[copy] = kept["vectors"], float(kept["seconds"])
        return self._passes[copy]

    def mlc(self, mode: Mode, seed: int, changes: dict[str, Any] | None = None) -> ViewResult:
        """Algorithm 1 with these views and other changed settings."""
        config = self._config(mode).override(changes or {})
        vectors, seconds = self.encoded()
        if "cached" in mode[1:3]:
            seconds += sum(self.encoded(copy)[1] for copy in range(config.views.n_cached))

        def work() -> Arrays:
            began, clock = time.process_time(), _Clock()
            samples, scaling = prepare(vectors)
            kinds = dict.fromkeys((mode.stage1, mode.stage2))
            makers = [self._maker(k, scaling, config.views.n_cached, clock) for k in kinds]
            views = _Makers(makers[0], makers[-1])
            run = begin(
                samples,
                config,
                seed=seed,
                fabric=make_fabric("auto"),
                n_clusters=self.problem.k,
                progress=self.progress,
                make_views=views,
                callbacks=[views.change],
            )
            found = solve(run, self.problem.k)
            training = time.process_time() - began - clock.seconds
            return {"labels": found.labels.labels, "seconds": np.array([clock.seconds, training])}

        key = [mode, config.to_dict(), seed]
        kept = self._kept("views", key, work)
        live, training = kept["seconds"].tolist()
        return ViewResult(kept["labels"], seconds + live, training)

    def kmeans(self, seed: int) -> ViewResult:
        """k-means on the same embeddings."""
        vectors, seconds = self.encoded()
        model = baselines.METHODS["kmeans"](self.problem.k, random_state=seed)

        def work() -> Arrays:
            began = time.process_time()
            labels = model.fit(vectors.astype(np.float64)).labels_
            self.progress(Tick("k-means", 1, 1))
            return {"labels": labels, "seconds": np.array(time.process_time() - began)}

        key = ["kmeans", model.get_params(), seed]
        kept = self._kept("views", key, work)
        return ViewResult(kept["labels"], seconds, float(kept["seconds"]))

    def row(self, title: str, found: Sequence[ViewResult]) -> list[str]:
        """Scores and seconds over seeds."""
        scores = [clustering_scores(self.problem.y, f.labels) for f in found]
        encoding, training = ([getattr(f, k) for f in found] for k in ("encoding", "training"))
        # All seeds share the same passes of the encoder.
        shown = mean_sd(encoding[:1] if len(set(encoding)) == 1 else encoding, 0)
        return [title, *score_cells(scores), shown, mean_sd(training, 0)]

    def _kept(self, kind: str, key: list[Any], work: Callable[[], Arrays]) -> Arrays:
        """Cached work, if the encoder can be identified."""
        key = [*key, self.encoder.cache_key, self.problem.fingerprint]
        return remember(kind, key, work, cached=self.encoder.cacheable)

    def _config(self, mode: Mode) -> Config:
        changes: dict[str, Any] = {"views.source": mode.stage2}
        if not mode.neighbors:
            changes["views.n_neighbors"] = 0
        return self.problem.config.override(changes)

    def _pass(self, copy: int) -> Arrays:
        images, began = self.problem.X, time.process_time()
        policy = self.problem.config.views.augmentation
        done, parts = 0, []
        for start in range(0, len(images), _PART):
            rows = slice(start, start + _PART)
            part: Any = images[rows]
            if copy >= 0:
                part = augmented(part, self.hashes[rows], policy, copy)
            parts.append(self.encoder.encode(part))
            done += len(part)
            self.progress(Tick(f"copy {copy}" if copy >= 0 else "encode", done, len(images)))
        seconds = np.array(time.process_time() - began)
        return {"vectors": np.concatenate(parts), "seconds": seconds}

    def _maker(
        self, source: str, scaling: Scaling, n_cached: int, clock: _Clock
    ) -> Callable[..., ViewSampler]:
        """A factory for views of this kind."""
        if source == "neighbors":
            return ViewSampler
        if source == "cached":
            copies = [scaling.apply(self.encoded(copy)[0]) for copy in range(n_cached)]
            return partial(CachedViews, bank=torch.stack(copies))

        def embed(x: Tensor) -> Tensor:
            with clock:
                return (self.encoder.embed_all(x) - scaling.offset) / scaling.scale

        return partial(LiveViews, images=self.problem.X, embed=embed)


class _Clock:
    """Measures the processor time spent inside the context."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __enter__(self) -> None:
        self._began = time.process_time()

    def __exit__(self, *error: object) -> None:
        self.seconds += time.process_time() - self._began


class _InTurn(ViewSampler):
    """Views of one kind in stage 1 and of another kind after it."""

    def __init__(self, first: ViewSampler, second: ViewSampler) -> None:
        self.samples, self.config, self.generator = first.samples, first.config, first.generator
        self.graph, self.neighbors = first.graph, first.neighbors
        self.now, self.later = first, second

    def map_once(self, fixed: Callable[[Tensor], Tensor]) -> None:
        """Both kinds, which may be the same views."""
        for views in {id(views): views for views in (self.now, self.later)}.values():
            views.map_once(fixed)

    def __call__(self, index: Tensor) -> Tensor:
        return self.now(index)


class _Makers:
    """Creates the views for :func:`begin`, and switches them at the end of stage 1."""

    def __init__(self, first: Callable[..., ViewSampler], second: Callable[..., ViewSampler]):
        self.first, self.second = first, second

    def __call__(self, *given: Any) -> ViewSampler:
        first = self.first(*given)
        self.views = _InTurn(first, first if self.second is self.first else self.second(*given))
        return self.views

    def change(self, tick: Tick) -> None:
        """Callback that switches to the other views when stage 2 begins."""
        if (tick.stage, tick.done) == ("stage 2", 0):
            self.views.now = self.views.later
