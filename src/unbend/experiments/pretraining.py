"""Compare self-supervised methods by the nearest neighbours in their features.

Every method trains the same small network on the same views for the same number of steps. Its
features are scored by the share of samples whose class is the most frequent one among their 20
nearest neighbours (leave-one-out, cosine), like those of a random network and the pixels.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from unbend.algorithm import train_encoder
from unbend.begin import begin
from unbend.config import PRESETS, Augmentation, Config
from unbend.devices import make_fabric
from unbend.disk import hash_array
from unbend.disk.provenance import STAGE1
from unbend.experiments.memory import Arrays, remember
from unbend.experiments.problem import seeds_of
from unbend.experiments.runner import show_progress
from unbend.metrics import knn_accuracy
from unbend.metrics.tables import Table, mean_sd
from unbend.pretrain import METHODS, embed_all
from unbend.progress import Tick
from unbend.samples import prepare
from unbend.sources import NamedSet, load_named

__all__ = ["CONFIGS", "Score", "kept_score", "run", "score"]

# Digits use the preset. Photographs use the paper's crops and colours and no neighbours, because
# photographs with similar pixels share only the background. The network is small enough for a CPU.
CONFIGS: dict[str, Config] = {
    "digits": PRESETS["images"],
    "cifar10": PRESETS["images"].override(
        {
            "views.n_neighbors": 0,
            "network.width": 16,
            "pretrain.batch_size": 256,
            "pretrain.epochs": 8,
            "pretrain.warmup": 0.1,
        }
        | {f"views.augmentation.{k}": v for k, v in vars(Augmentation()).items()}
    ),
}
SEEDS = {"digits": 3, "cifar10": 1}  # some twenty minutes each on one core
K = 20
NOTES = (
    "h is what the backbone gives and what a linear probe would read. Z is the feature head after "
    "it: trained with TCR itself, and for the other methods started by a few steps of TCR.",
)


class Score(NamedTuple):
    """Nearest-neighbour accuracy in h and in Z, and the seconds of training."""

    h: float
    Z: float
    seconds: float


def run(
    *,
    seeds: int | None = None,
    out: Path | None = None,
    verbose: bool = True,
    data: str | tuple[str, ...] = tuple(SEEDS),
    n_samples: int = 10_000,
    methods: tuple[str, ...] = ("none", *METHODS),
    settings: Mapping[str, object] | None = None,
) -> Table:
    """Table of all methods over seeds; data sets are cut to their first ``n_samples``.

    If ``seeds`` is None, each data set has the number of seeds in ``SEEDS``. The result of every
    method, data set and seed is cached, so that a second call continues.
    """
    columns, cells = ["features"], {name: [_title(name)] for name in ("pixels", *methods)}
    caption = []
    with show_progress(verbose) as progress:
        for name in (data,) if isinstance(data, str) else data:
            if name not in CONFIGS:
                known = ", ".join(CONFIGS)
                raise ValueError(f"`data` of pretraining must be of {known}, got {name!r}")
            each = seeds_of(seeds, SEEDS[name], SEEDS[name], "small")
            chosen = _first(load_named(name), n_samples)
            samples, _ = prepare(np.asarray(chosen.X))
            config = CONFIGS[name].override(dict(settings or {}))
            columns += [f"{name}: h", f"{name}: Z", f"{name}: seconds"]
            cells["pixels"] += [f"{knn_accuracy(samples, chosen.y, K):.3f}", "", ""]
            for done, method in enumerate(methods, 1):
                found = [kept_score(samples, chosen, config, method, s) for s in each]
                cells[method] += [
                    mean_sd([s.h for s in found]),
                    mean_sd([s.Z for s in found]),
                    mean_sd([s.seconds for s in found], 0),
                ]
                progress(Tick(f"pretraining {name}", done, len(methods)))
            spread = f"{len(each)} seeds, mean ± sd" if len(each) > 1 else "1 seed"
            caption.append(f"{name} n = {len(chosen.y)}, split = {chosen.split}, {spread}")
    title = f"kNN accuracy (k = {K}, leave-one-out): {'; '.join(caption)}"
    return Table(title, columns, list(cells.values()), NOTES).saved(out, "pretraining")


def kept_score(samples: Tensor, data: NamedSet, config: Config, method: str, seed: int) -> Score:
    """:func:`score`, from the cache if it was computed before."""

    def work() -> Arrays:
        return {"score": np.array(score(samples, data, config, method, seed))}

    views, network, pretrain = (config.to_dict()[k] for k in ("views", "network", "pretrain"))
    key = [method, views, network, pretrain, hash_array(data.X), hash_array(data.y), K, seed]
    kept = remember("pretraining", key, work, rooms=(*STAGE1, "metrics"))
    return Score(*kept["score"].tolist())


def score(samples: Tensor, data: NamedSet, config: Config, method: str, seed: int) -> Score:
    """Train once and score the nearest neighbours; true labels only score."""
    start = time.perf_counter()
    config = config.override({"pretrain.method": method})
    network = train_encoder(begin(samples, config, seed=seed, fabric=make_fabric("cpu"))).network
    seconds = time.perf_counter() - start
    with torch.inference_mode():
        h, Z = embed_all(network, samples), network.encode(samples).Z
    return Score(knn_accuracy(h, data.y, K), knn_accuracy(Z, data.y, K), seconds)


def _first(data: NamedSet, n: int) -> NamedSet:
    return NamedSet(data.name, data.split, data.X[:n], data.y[:n])


def _title(name: str) -> str:
    return {"none": "network at random"}.get(name, name)
