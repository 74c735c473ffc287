"""Stage 1 once per seed, shared by every experiment that starts from its features."""

from __future__ import annotations

import copy
import hashlib
import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from unbend import __version__
from unbend.algorithm import linearize, solve
from unbend.data import ViewSampler, default_cache_dir, prepare
from unbend.devices import make_fabric
from unbend.experiments.problem import Problem
from unbend.experiments.provenance import commit, use_kept
from unbend.labels import label_codes
from unbend.networks import Network, build_network
from unbend.pretrain import is_path
from unbend.progress import Progress, silent
from unbend.runs import read_model, write_model
from unbend.training import History, Watch

__all__ = ["Outcome", "Stage1", "features", "stage1", "stage2"]


class Stage1(NamedTuple):
    """The network after stage 1 and the seconds that took when it ran."""

    network: Network
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
    place = Path(default_cache_dir()) / "experiments" / "stage1" / _key(problem, seed)
    if cached and place.is_dir():
        tensors, values = read_model(place)
        use_kept(str(values.get("commit", "an earlier version")))
        return Stage1(_rebuild(problem, tensors), float(values["seconds"]))
    start, found = time.perf_counter(), []

    def keep(stage: int, network: Network) -> None:
        if stage == 1:
            found.append((copy.deepcopy(network).cpu().eval(), time.perf_counter() - start))

    only = replace(problem.config, stage2=replace(problem.config.stage2, epochs=0))
    samples, _ = prepare(problem.X)
    fabric = make_fabric(device)
    solve(samples, problem.k, only, seed=seed, fabric=fabric, progress=progress, observe=keep)
    result = Stage1(*found[0])
    if cached:
        place.parent.mkdir(parents=True, exist_ok=True)
        tensors = dict(result.network.state_dict())
        write_model(place, tensors, {"seconds": result.seconds, "commit": commit()})
    return result


def stage2(
    problem: Problem,
    network: Network,
    seed: int,
    *,
    observe: Callable[[int, Network], None] | None = None,
    progress: Progress = silent,
    device: str = "auto",
) -> Outcome:
    """Lines 2-10 of Algorithm 1 from a copy of a network that stage 1 trained.

    ``observe(epoch, network)`` is called before the first epoch and after every one.
    """
    config, start = problem.config, time.perf_counter()
    network = copy.deepcopy(network)
    samples, _ = prepare(problem.X)
    fabric = make_fabric(device)
    samples, network = samples.to(fabric.device), network.to(fabric.device)
    generator = torch.Generator().manual_seed(seed)
    views = ViewSampler(samples, config.views, generator)
    network.copy_feature_head()
    trained: Any = fabric.setup_module(network)
    trained.mark_forward_method("features")
    if observe:
        observe(0, network)
    history = linearize(
        trained,
        views,
        config.stage2,
        generator=generator,
        fabric=fabric,
        progress=progress,
        watch=_watch(observe, network, -(-len(views) // config.stage2.batch_size)),
    )
    return finish(problem, network, seed, history, start)


def finish(
    problem: Problem, network: Network, seed: int, history: History, start: float
) -> Outcome:
    """Line 10: labels from the codes of all samples."""
    config = problem.config.stage2
    samples, _ = prepare(problem.X)
    Z, C = (t.float().cpu() for t in network.cpu().encode(samples))
    labels = label_codes(C, Z, problem.k, eta=config.eta, eps_sq=config.eps_sq, seed=seed).labels
    return Outcome(labels, Z.numpy(), C.numpy(), history, time.perf_counter() - start)


def features(problem: Problem, network: Network) -> NDArray[np.float64]:
    """Features Z of all samples."""
    samples, _ = prepare(problem.X)
    Z: NDArray[np.float64] = network.encode(samples).Z.double().numpy()
    return Z


def _watch(
    observe: Callable[[int, Network], None] | None, network: Network, per_epoch: int
) -> Watch | None:
    if observe is None:
        return None
    return Watch(lambda stage, step: observe((step + 1) // per_epoch, network), per_epoch)


def _key(problem: Problem, seed: int) -> str:
    tree = problem.config.to_dict()
    tree.pop("stage2")
    parts = [
        __version__,
        tree,
        seed,
        problem.fingerprint,
        *_weights(problem.config.pretrain.method),
    ]
    text = json.dumps(parts, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:24]


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
