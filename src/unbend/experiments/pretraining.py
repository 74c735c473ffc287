"""What each self-supervised method is worth: nearest neighbours in its features.

Every method trains the same small network on the same views for as many steps. Its features are
scored by the share of samples whose class is the most frequent one among their 20 nearest others
(leave-one-out, cosine), beside those of the network at random and those of the pixels.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from unbend.config import PRESETS, Augmentation, Config
from unbend.data import NamedSet, load_named, prepare
from unbend.devices import make_fabric
from unbend.experiments.tables import Table, mean_sd
from unbend.metrics import knn_accuracy
from unbend.pretrain import METHODS, embed_all, train_encoder
from unbend.progress import Tick, console_progress, silent

__all__ = ["CONFIGS", "Score", "run", "score"]

# Digits as in the preset. Photographs want the paper's crops and colours, and no neighbours:
# what is near in pixels is the background. The network is small enough for minutes on a CPU.
CONFIGS: dict[str, Config] = {
    "digits": PRESETS["images"],
    "cifar10": PRESETS["images"].override(
        {
            "views.n_neighbors": 0,
            "network.width": 16,
            "pretrain.batch_size": 256,
            "pretrain.epochs": 15,
            "pretrain.warmup": 0.1,
        }
        | {f"views.augmentation.{k}": v for k, v in vars(Augmentation()).items()}
    ),
}
CHOSEN = ("digits", "cifar10")
K = 20


class Score(NamedTuple):
    """Accuracy of nearest neighbours in h and in Z, and the seconds of training."""

    h: float
    Z: float
    seconds: float


def run(
    *,
    seeds: int = 3,
    out: Path | None = None,
    verbose: bool = True,
    data: tuple[str, ...] = CHOSEN,
    n_samples: int = 5000,
    methods: tuple[str, ...] = ("none", *METHODS),
    settings: Mapping[str, object] | None = None,
) -> Table:
    """Table of all methods over seeds; data sets are cut to their first ``n_samples``."""
    columns, cells = ["features"], {name: [_title(name)] for name in ("pixels", *methods)}
    caption = []
    with console_progress() as progress:
        for name in data:
            chosen = _first(load_named(name), n_samples)
            samples, _ = prepare(np.asarray(chosen.X))
            config = CONFIGS[name].override(dict(settings or {}))
            columns += [f"{name}: h", f"{name}: Z", f"{name}: seconds"]
            cells["pixels"] += [f"{knn_accuracy(samples, chosen.y, K):.3f}", "", ""]
            for done, method in enumerate(methods, 1):
                found = [score(samples, chosen, config, method, seed) for seed in range(seeds)]
                cells[method] += [
                    mean_sd([s.h for s in found]),
                    mean_sd([s.Z for s in found]),
                    mean_sd([s.seconds for s in found], 0),
                ]
                (progress if verbose else silent)(Tick(f"pretraining {name}", done, len(methods)))
            caption.append(f"{name} n = {len(chosen.y)}, split = {chosen.split}")
    spread = f"{seeds} seeds, mean ± sd" if seeds > 1 else "1 seed"
    title = f"kNN accuracy (k = {K}, leave-one-out): {'; '.join(caption)}; {spread}"
    table = Table(title, columns, list(cells.values()))
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        table.write(out / "pretraining")
    return table


def score(samples: Tensor, data: NamedSet, config: Config, method: str, seed: int) -> Score:
    """Train once and look at the neighbours; true labels only score."""
    start = time.perf_counter()
    config = config.override({"pretrain.method": method})
    network = train_encoder(samples, config, seed=seed, fabric=make_fabric("cpu")).network
    seconds = time.perf_counter() - start
    with torch.inference_mode():
        h, Z = embed_all(network, samples), network.encode(samples).Z
    return Score(knn_accuracy(h, data.y, K), knn_accuracy(Z, data.y, K), seconds)


def _first(data: NamedSet, n: int) -> NamedSet:
    return NamedSet(data.name, data.split, data.X[:n], data.y[:n])


def _title(name: str) -> str:
    return {"none": "network at random"}.get(name, name)
