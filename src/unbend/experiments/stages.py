"""Stage 1 once per seed, shared by every experiment that starts from its features."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unbend.algorithm import Watching, solve
from unbend.data import ViewSampler, default_cache_dir, prepare
from unbend.data.kept_neighbors import KeptNeighbors
from unbend.devices import make_fabric
from unbend.experiments.memory import Arrays, remember
from unbend.experiments.problem import Problem
from unbend.experiments.provenance import STAGE1
from unbend.networks import Network, build_network
from unbend.pretrain import is_path
from unbend.progress import Progress, silent
from unbend.training import History

__all__ = ["Outcome", "Stage1", "features", "stage1", "stage2"]


class Stage1(NamedTuple):
    """Where stage 1 of a seed ended, and the seconds that took when it ran."""

    network: Network
    seed: int
    generator: Tensor  # its state, from which stage 2 of the same seed goes on
    seconds: float


class Outcome(NamedTuple):
    """What stage 2 gives for all samples."""

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
    """Line 1 of Algorithm 1 for one seed, from the cache where it was run before."""
    tree = problem.config.to_dict()
    tree.pop("stage2")
    key = [tree, seed, problem.fingerprint, *_weights(problem.config.pretrain.method)]
    rooms = (*STAGE1, "algorithm.py", "experiments/stages.py")

    def work() -> Arrays:
        return _train(problem, seed, _make_views(cached), progress, device)

    kept = remember("stage1", key, work, cached=cached, rooms=rooms)
    tensors = {name: torch.from_numpy(array) for name, array in kept.items()}
    state, seconds = tensors.pop("generator"), float(tensors.pop("seconds"))
    return Stage1(_rebuild(problem, tensors), seed, state, seconds)


def _make_views(cached: bool) -> Callable[..., ViewSampler]:
    """No seed is in the search for neighbours: one that is kept serves all of them."""
    if not cached:
        return ViewSampler
    return partial(
        ViewSampler, search=KeptNeighbors(default_cache_dir() / "experiments" / "neighbors")
    )


def _train(
    problem: Problem,
    seed: int,
    make_views: Callable[..., ViewSampler],
    progress: Progress,
    device: str,
) -> Arrays:
    """Weights after stage 1, the state of the generator then, and the seconds."""
    start, found = time.perf_counter(), {}
    generator = torch.Generator().manual_seed(seed)

    def keep(stage: int, network: Network) -> None:
        if stage == 1:
            tensors = {**network.state_dict(), "generator": generator.get_state()}
            found.update({name: t.cpu().contiguous().numpy().copy() for name, t in tensors.items()})
            found["seconds"] = np.array(time.perf_counter() - start)

    only = replace(problem.config, stage2=replace(problem.config.stage2, epochs=0))
    solve(
        prepare(problem.X)[0],
        problem.k,
        only,
        seed=seed,
        fabric=make_fabric(device),
        progress=progress,
        observe=keep,
        make_views=make_views,
        generator=generator,
    )
    return found


def stage2(
    problem: Problem,
    first: Stage1 | None,
    seed: int,
    *,
    cached: bool = True,
    observe: Callable[[int, Network], None] | None = None,
    progress: Progress = silent,
    device: str = "auto",
) -> Outcome:
    """Lines 2-10 of Algorithm 1 from a copy of a network that stage 1 trained.

    Where both stages have the same seed, this is :class:`unbend.MLC` with that seed to the bit.
    ``observe(epoch, network)`` is called before the first epoch and after every one. Without
    ``first`` all of Algorithm 1 runs, with the stage 1 of the problem's settings. ``cached`` says
    whether neighbours found before may be used.
    """
    config, start = problem.config, time.perf_counter()
    generator = torch.Generator().manual_seed(seed)
    if first is not None and first.seed == seed:
        generator.set_state(first.generator)
    per_epoch = -(-len(problem.X) // config.stage2.batch_size)
    look = observe or (lambda epoch, network: None)

    def on_step(stage: str, step: int, network: Network) -> None:
        look((step + 1) // per_epoch, network)

    found = solve(
        prepare(problem.X)[0],
        problem.k,
        config,
        seed=seed,
        fabric=make_fabric(device),
        progress=progress,
        observe=lambda stage, network: look(0, network) if stage == 1 else None,
        watch=Watching(on_step, per_epoch) if observe else None,
        make_views=_make_views(cached),
        generator=generator,
        start=first and first.network,
    )
    seconds = time.perf_counter() - start
    return Outcome(found.labels.labels, found.Z.numpy(), found.C.numpy(), found.history, seconds)


def features(problem: Problem, network: Network) -> NDArray[np.float64]:
    """Features Z of all samples."""
    samples, _ = prepare(problem.X)
    Z: NDArray[np.float64] = network.encode(samples).Z.double().numpy()
    return Z


def _weights(method: str) -> list[str]:
    """Hashes of the weights, where stage 1 starts from a directory."""
    files = sorted(Path(method).glob("*.safetensors")) if is_path(method) else []
    return [hashlib.sha256(file.read_bytes()).hexdigest() for file in files]


def _rebuild(problem: Problem, tensors: dict[str, torch.Tensor]) -> Network:
    shape = prepare(problem.X[:2])[1].shape
    network = build_network(shape, problem.config.network, seed=0)
    network.mean, network.std = tensors["mean"], tensors["std"]
    network.load_state_dict(tensors)
    return network.eval()
