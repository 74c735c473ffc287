"""Which backbone is worth its time on small images: accuracy beside processor time.

Every backbone is trained by the same recipe, with the number of steps that the preset plans for its
cost. The images are training images of MNIST and Fashion-MNIST, which no list of the suite holds.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from unbend.disk import hash_array
from unbend.disk.provenance import ESTIMATOR
from unbend.estimator import MLC
from unbend.experiments.memory import Arrays, remember
from unbend.experiments.problem import seeds_of
from unbend.experiments.runner import show_progress
from unbend.metrics import Scores, clustering_scores
from unbend.metrics.tables import Table, mean_sd
from unbend.progress import Tick
from unbend.sources.named import load_named
from unbend.threads import use_threads

__all__ = ["BACKBONES", "run"]

DATA = ("mnist:train", "fashion-mnist:train")
N_IMAGES = 2000
COLUMNS = ("data", "backbone", "ACC", "NMI", "ARI", "steps of stage 1", "seconds, one core")

Labelled = tuple[NDArray[Any], NDArray[np.int64]]


class Patches(nn.Module):
    """An embedding of non-overlapping patches, and an MLP over all of them."""

    def __init__(self, side: int, patch: int, width: int = 32) -> None:
        super().__init__()
        self.out_features = 256
        places = (side // patch) ** 2
        self.layers = nn.Sequential(
            nn.Conv2d(1, width, patch, patch),
            nn.BatchNorm2d(width),
            nn.ReLU(inplace=True),
            nn.Flatten(),
            nn.Linear(places * width, self.out_features),
            nn.ReLU(inplace=True),
        )

    def forward(self, x: Tensor) -> Tensor:
        h: Tensor = self.layers(x)
        return h


class StridedStem(nn.Module):
    """A convolution of stride 4, then two of stride 2: a quarter of the convnet's operations."""

    def __init__(self, side: int, width: int = 32) -> None:
        super().__init__()
        last = -(-side // 16)
        self.out_features = 4 * width * last * last
        self.layers = nn.Sequential(
            nn.Conv2d(1, width, 7, 4, 3, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(inplace=True),
            nn.Conv2d(width, 2 * width, 3, 2, 1, bias=False),
            nn.BatchNorm2d(2 * width),
            nn.ReLU(inplace=True),
            nn.Conv2d(2 * width, 4 * width, 3, 2, 1, bias=False),
            nn.BatchNorm2d(4 * width),
            nn.ReLU(inplace=True),
            nn.Flatten(),
        )

    def forward(self, x: Tensor) -> Tensor:
        h: Tensor = self.layers(x)
        return h


class RandomFeatures(nn.Module):
    """Frozen random convolutions, pooled; only the heads learn."""

    def __init__(self, width: int = 128) -> None:
        super().__init__()
        self.out_features = width * 16
        self.layers = nn.Sequential(
            nn.Conv2d(1, width, 7, 2, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten()
        ).requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        h: Tensor = self.layers(x)
        return h


def _module(make: Callable[[int], nn.Module]) -> Callable[[int], dict[str, Any]]:
    def parameters(side: int) -> dict[str, Any]:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            return {"backbone": make(side)}

    return parameters


def _named(name: str, width: int) -> Callable[[int], dict[str, Any]]:
    return lambda side: {"backbone": name, "settings": {"network.width": width}}


# Name → parameters of MLC for images of a side.
BACKBONES: dict[str, Callable[[int], dict[str, Any]]] = {
    "convnet, width 16 (the default)": lambda side: {},
    "convnet, width 8": _named("convnet", 8),
    "convnet, width 32": _named("convnet", 32),
    "ResNet-18, width 4": _named("resnet18", 4),
    "ResNet-18, width 8": _named("resnet18", 8),
    "stem of stride 4": _module(StridedStem),
    "patches of 4 pixels": _module(lambda side: Patches(side, 4)),
    "random features, frozen": _module(lambda side: RandomFeatures()),
    "mlp on augmented pixels": _named("mlp", 256),
    "pixels as vectors, without views by augmentation": lambda side: {"preset": "vectors"},
}


def run(*, seeds: int | None = None, out: Path | None = None, verbose: bool = True) -> Table:
    """Fit every backbone to every set; about a minute of a core for each fit."""
    each = seeds_of(seeds, 2, 2, "small")
    jobs = [(data, name) for data in DATA for name in BACKBONES]
    rows = []
    with show_progress(verbose) as progress:
        for done, (data, name) in enumerate(jobs):
            X, y = _images(data)
            found = [_fit(X, y, name, seed) for seed in each]
            rows.append([data, name, *_cells(found, y)])
            progress(Tick("backbones", done + 1, len(jobs)))
    caption = f"backbones on {N_IMAGES:,} training images, mean ± sd over {len(each)} seeds"
    note = (
        "Settings but the backbone are those of the preset, and so is the plan of steps. A module "
        "that is passed in counts as nothing in that plan, so it gets all the steps of the preset."
    )
    return Table(caption, COLUMNS, rows, [note]).saved(out, "backbones")


def _images(name: str) -> Labelled:
    found = load_named(name, download=False)
    rows = np.sort(np.random.default_rng(0).permutation(len(found.X))[:N_IMAGES])
    return found.X[rows], found.y[rows]


def _fit(X: NDArray[Any], y: NDArray[np.int64], name: str, seed: int) -> Arrays:
    make = BACKBONES[name]

    def work() -> Arrays:
        model = MLC(len(np.unique(y)), random_state=seed, **make(X.shape[-1]))
        start = time.process_time()
        with use_threads(1):
            model.fit(X)
        steps = sum(row["stage"] == "stage 1" for row in model.history_)
        seconds = time.process_time() - start
        return {
            "labels": model.labels_,
            "steps": np.array(steps),
            "seconds": np.array(seconds),
        }

    return remember("backbones", [name, hash_array(X), seed], work, rooms=ESTIMATOR)


def _cells(found: list[Arrays], y: NDArray[np.int64]) -> list[str]:
    scores: list[Scores] = [clustering_scores(y, fit["labels"]) for fit in found]
    return [
        mean_sd([s.acc for s in scores]),
        mean_sd([s.nmi for s in scores]),
        mean_sd([s.ari for s in scores]),
        f"{int(found[0]['steps'])}",
        mean_sd([float(fit["seconds"]) for fit in found], 1),
    ]
