"""A small run of Algorithm 1 that can be stopped, killed and compared bit by bit."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import torch
from sklearn.datasets import load_digits

from unbend.algorithm import Solution, solve
from unbend.begin import begin
from unbend.config import PRESETS, Config
from unbend.devices import make_fabric
from unbend.training import Checkpoints

STEPS = 12  # of each stage


def config(kind: str = "vectors", **changes: object) -> Config:
    """Both stages in 12 steps each, with everything random that there is."""
    short = {
        "views.n_neighbors": 3,
        "views.refresh": 1,
        "network.width": 8 if kind == "images" else 16,
        "network.dim": 8,
        "network.head_width": 16,
        "pretrain.batch_size": 25,
        "stage2.batch_size": 25,
        "stage2.n_anchors": 10,
        "pretrain.max_steps": STEPS,
        "stage2.min_steps": 0,
        "stage2.max_steps": STEPS,
    }
    return PRESETS[kind].override({**short, **changes})


def samples(kind: str = "vectors", n: int = 60) -> torch.Tensor:
    images = torch.from_numpy(load_digits().images[:n]).float() / 16
    return images[:, None] if kind == "images" else images.flatten(1)


def run(
    path: Path | None = None, kind: str = "vectors", n: int = 60, **options: object
) -> Solution:
    """Run it, with a checkpoint after every step where there is a path."""
    changes = options.pop("changes", {})
    every, stage1 = options.pop("every", 0.0), options.pop("stage1", None)
    checkpoints = None if path is None else Checkpoints(path, every=every, stage1=stage1)
    begun = begin(
        samples(kind, n),
        config(kind, **changes),
        seed=options.pop("seed", 0),
        fabric=make_fabric("cpu", options.pop("precision", "32-true")),
        checkpoints=checkpoints,
        **options,
    )
    return solve(begun, 3)


def fingerprint(solution: Solution) -> str:
    """Hash of weights, representation, labels and history, to the last bit."""
    digest = hashlib.sha256(repr(solution.history).encode())
    for name, value in sorted(solution.network.state_dict().items()):
        digest.update(name.encode() + value.numpy().tobytes())
    for array in (solution.Z.numpy(), solution.C.numpy(), np.asarray(solution.labels.labels)):
        digest.update(array.tobytes())
    return digest.hexdigest()
