"""The two stages of MLC; stage 1 runs once per seed and is shared by all experiments."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unbend.algorithm import STAGE_2, solve
from unbend.begin import begin
from unbend.devices import make_fabric
from unbend.disk import default_cache_dir, hash_file
from unbend.disk.provenance import STAGE1
from unbend.experiments.memory import Arrays, remember
from unbend.experiments.problem import Problem
from unbend.networks import Network, build_network
from unbend.pretrain import is_path
from unbend.progress import Progress, Tick, silent
from unbend.samples import ViewSampler, prepare
from unbend.samples.neighbor_cache import NeighborCache
from unbend.training import History

__all__ = ["Stage2", "Stage1", "features", "stage1", "stage2"]

_CHOSEN = ("whiten", "project")  # settings of the network that are chosen from the data


class Stage1(NamedTuple):
    """The end of stage 1 for one seed, and the seconds it took."""

    network: Network
    seed: int
    generator: Tensor  # its state, from which stage 2 of the same seed continues
    seconds: float


class Stage2(NamedTuple):
    """The results of stage 2 for all samples."""

    labels: NDArray[np.int64]
    Z: NDArray[np.floating]
    C: NDArray[np.floating]
    history: History
    seconds: float


def stage1(
    problem: Problem,
    seed: int,
    *,
    cached: bool = True,
    progress: Progress = silent,
    device: str = "auto",
) -> Stage1:
    """Line 1 of Algorithm 1 for one seed, from the cache if it was run before."""
    tree = problem.config.to_dict()
    tree.pop("stage2")
    tree.pop("labels")
    key = [tree, seed, problem.fingerprint, *_weights(problem.config.pretrain.method)]
    rooms = (*STAGE1, "algorithm.py", "experiments/stages.py")

    def work() -> Arrays:
        return _train(problem, seed, _make_views(cached), progress, device)

    kept = remember("stage1", key, work, cached=cached, rooms=rooms)
    tensors = {name: torch.from_numpy(array) for name, array in kept.items()}
    state, seconds = tensors.pop("generator"), float(tensors.pop("seconds"))
    chosen: dict[str, Any] = {name: int(tensors.pop(name)) for name in _CHOSEN}
    return Stage1(_rebuild(problem, chosen, tensors), seed, state, seconds)


def _make_views(cached: bool) -> Callable[..., ViewSampler]:
    """Neighbours do not depend on the seed, so all seeds share a cached search."""
    if not cached:
        return ViewSampler
    return partial(
        ViewSampler, search=NeighborCache(default_cache_dir() / "experiments" / "neighbors")
    )


def _train(
    problem: Problem,
    seed: int,
    make_views: Callable[..., ViewSampler],
    progress: Progress,
    device: str,
) -> Arrays:
    """Weights and state of the generator after stage 1, and the seconds."""
    start, found = time.perf_counter(), {}
    generator = torch.Generator().manual_seed(seed)

    def keep(tick: Tick) -> None:
        if tick.stage == STAGE_2:
            tensors = {**tick.network.state_dict(), "generator": generator.get_state()}
            found.update({name: t.cpu().contiguous().numpy().copy() for name, t in tensors.items()})
            found["seconds"] = np.array(time.perf_counter() - start)

    only = replace(problem.config, stage2=replace(problem.config.stage2, epochs=0))
    run = begin(
        prepare(problem.X)[0],
        only,
        seed=seed,
        fabric=make_fabric(device),
        n_clusters=problem.k,
        progress=progress,
        callbacks=[keep],
        make_views=make_views,
        generator=generator,
    )
    solve(run, problem.k)
    return found | {name: np.array(getattr(run.config.network, name)) for name in _CHOSEN}


def stage2(
    problem: Problem,
    first: Stage1 | None,
    seed: int,
    *,
    cached: bool = True,
    observe: Callable[[int, Network], None] | None = None,
    progress: Progress = silent,
    device: str = "auto",
) -> Stage2:
    """Lines 2-10 of Algorithm 1 from a copy of a network that stage 1 trained.

    If both stages have the same seed, the result is bit-equal to :class:`unbend.MLC` with it.
    ``observe(epoch, network)`` is called before the first epoch and after every one. Without
    ``first`` all of Algorithm 1 runs, with the stage 1 of the problem's settings. ``cached`` says
    whether cached neighbours may be used.
    """
    config, start = problem.config, time.perf_counter()
    generator = torch.Generator().manual_seed(seed)
    if first is not None and first.seed == seed:
        generator.set_state(first.generator)
    per_epoch = -(-len(problem.X) // config.stage2.batch_size)

    def look(tick: Tick) -> None:
        if observe is not None and tick.stage == STAGE_2 and tick.done % per_epoch == 0:
            observe(tick.done // per_epoch, tick.network)

    run = begin(
        prepare(problem.X)[0],
        config,
        seed=seed,
        fabric=make_fabric(device),
        n_clusters=problem.k,
        progress=progress,
        callbacks=[look],
        make_views=_make_views(cached),
        generator=generator,
        start=first and first.network,
    )
    found = solve(run, problem.k)
    seconds = time.perf_counter() - start
    return Stage2(found.labels.labels, found.Z.numpy(), found.C.numpy(), found.history, seconds)


def features(problem: Problem, network: Network) -> NDArray[np.float64]:
    """Features Z of all samples."""
    samples, _ = prepare(problem.X)
    Z: NDArray[np.float64] = network.encode(samples).Z.double().numpy()
    return Z


def _weights(method: str) -> list[str]:
    """Hashes of the weights, if stage 1 starts from a directory."""
    files = sorted(Path(method).glob("*.safetensors")) if is_path(method) else []
    return [hash_file(file) for file in files]


def _rebuild(problem: Problem, chosen: dict[str, Any], tensors: dict[str, torch.Tensor]) -> Network:
    shape = prepare(problem.X[:2])[1].shape
    network = build_network(shape, replace(problem.config.network, **chosen), seed=0)
    network.mean, network.std = tensors["mean"], tensors["std"]
    network.load_state_dict(tensors)
    return network.eval()
