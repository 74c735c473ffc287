"""The problem of an experiment: samples, true labels for scoring, and settings of MLC."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unbend.config import PRESETS, Config, preset_for, resolve
from unbend.disk import hash_array
from unbend.samples import prepare
from unbend.sources import open_source

__all__ = [
    "Problem",
    "make_imbalanced",
    "open_problem",
    "pairs_of_digits",
    "seeds_of",
]

SCALES = ("small", "full")
_LABELS = ("y", "label", "labels", "class", "target")
SMALL_N = 2000  # samples of larger sets that the scale "small" takes

# A shortened version of the paper's stage 2, whose effect on the features the tables measure. The
# presets for small data stop much earlier, which gives better labels but changes features less.
PAPER_STAGE2 = {
    "stage2.epochs": 30,
    "stage2.min_steps": 50,
    "stage2.max_steps": 1500,
    "stage2.lr": PRESETS["paper"].stage2.lr,
    "labels.join": "codes",
}
_HUNDRED = {
    "network.dim": 128,
    "stage2.eta": 0.1,
    "stage2.batch_size": 1200,
    "stage2.n_anchors": 256,
}


@dataclass(frozen=True)
class Problem:
    """Samples X, true labels y, which are used only for scoring, and the settings of a run."""

    name: str
    split: str
    X: NDArray[Any]
    y: NDArray[np.int64]
    config: Config

    @property
    def k(self) -> int:
        """Number of true classes."""
        return len(np.unique(self.y))

    @property
    def eta(self) -> float:
        """Eta of the settings, or a typical value if it is calibrated."""
        eta = self.config.stage2.eta
        return eta_for(self.k) if eta == "auto" else float(eta)

    @cached_property
    def fingerprint(self) -> str:
        """Hash of the samples."""
        return hash_array(self.X)

    def with_config(self, changes: dict[str, Any]) -> Problem:
        """The same samples with other settings."""
        return replace(self, config=self.config.override(changes))

    def describe(self) -> str:
        """For captions: name, n, split, classes."""
        return f"{self.name}: n = {len(self.y)}, split = {self.split}, {self.k} classes"


def open_problem(
    data: str | None,
    encoder: str | None = None,
    checkpoint: str | None = None,
    *,
    scale: str = "small",
    full: str = "cifar10",
    limit: int = SMALL_N,
) -> Problem:
    """Load the samples of an experiment.

    Parameters
    ----------
    data : str, optional
        A named set, or a path to data with labels. By default digits at the scale ``"small"`` and
        ``full`` at the scale ``"full"``.
    encoder : str, optional
        Replace images by the features of a pre-trained encoder.
    checkpoint : str, optional
        An encoder saved by ``unbend pretrain``; its backbone replaces stage 1.
    scale : {"small", "full"}
        ``"full"`` uses all samples and the paper's settings, made for a GPU. ``"small"`` uses at
        most ``limit`` samples, evenly from the classes, and the preset for small data with a
        shortened version of the paper's stage 2.
    """
    if scale not in SCALES:
        raise ValueError(f"`scale` must be one of {', '.join(SCALES)}, got {scale!r}; try 'small'")
    if encoder and checkpoint:
        raise ValueError("give an encoder or a checkpoint, not both")
    name, split, X, y = _load(data or ("digits" if scale == "small" else full))
    if scale == "small" and len(X) > limit:
        rows = _even_rows(y, limit)
        X, y, split = X[rows], y[rows], f"{split}, {len(rows)} of {len(X)} samples"
    if encoder:
        X, name = _embed(X, str(encoder)), f"{name} seen by {Path(encoder).name}"
    preset = "paper" if scale == "full" and np.ndim(X) > 2 else preset_for(_shape(X))
    preset = "vectors" if encoder else preset  # as MLC's with an encoder
    own = encoder or preset == "paper"
    settings: dict[str, Any] = {} if own else dict(PAPER_STAGE2)
    if checkpoint:
        settings["pretrain.method"] = str(checkpoint)
    return _problem(name, split, X, y, preset, settings)


def _problem(
    name: str,
    split: str,
    X: NDArray[Any],
    y: NDArray[np.int64],
    preset: str,
    settings: dict[str, Any],
) -> Problem:
    """With MLC's settings for this number and kind of samples."""
    if "labels.join" in settings:
        settings = {"stage2.eta": eta_for(len(np.unique(y))), **settings}
    config = resolve(_shape(X), len(X), len(np.unique(y)), preset=preset, settings=settings)
    return Problem(name, split, X, y, config)


def eta_for(k: int) -> float:
    """One eta for a whole table, from k alone.

    A thirtieth of a sample's membership leaks to orthogonal clusters.

    >>> round(eta_for(10), 3)  # the paper's
    0.175
    """
    return 1 / math.log(30 * max(2, k))


def make_imbalanced(problem: Problem, seed: int = 0) -> Problem:
    """Remove half of the samples of the classes 1, 3, ..., as the paper does for Table 6."""
    rng = np.random.default_rng(seed)
    classes = np.unique(problem.y)
    kept = [
        rows if index % 2 == 0 else rng.permutation(rows)[: -(-len(rows) // 2)]
        for index, rows in enumerate(np.flatnonzero(problem.y == c) for c in classes)
    ]
    rows = np.sort(np.concatenate(kept))
    return replace(problem, name=f"imbalanced {problem.name}", X=problem.X[rows], y=problem.y[rows])


def pairs_of_digits(each: int = 30, seed: int = 0) -> Problem:
    """The numbers 00 to 99, each written ``each`` times by two of scikit-learn's digits.

    A hundred classes for machines that cannot download CIFAR-100. They need one dimension each, a
    dozen samples of each in a batch, and a smaller eta, because membership leaks to more other
    classes. Eta and batch size are the best of a few values, chosen by the score of one seed.
    """
    name, _, X, y = _load("digits")
    rng = np.random.default_rng(seed)
    rows = [np.flatnonzero(y == digit) for digit in range(10)]
    numbers = np.repeat(np.arange(100), each)
    left = np.array([rng.choice(rows[number // 10]) for number in numbers])
    right = np.array([rng.choice(rows[number % 10]) for number in numbers])
    images = np.concatenate([X[left], X[right]], axis=2)
    labels = numbers.astype(np.int64)
    settings = {**PAPER_STAGE2, **_HUNDRED}
    return _problem(f"two {name} side by side", "all", images, labels, "images", settings)


def seeds_of(seeds: int | None, small: int, full: int, scale: str) -> range:
    """Seeds 0, 1, ... of a run."""
    count = (small if scale == "small" else full) if seeds is None else seeds
    if count < 1:
        raise ValueError(f"`seeds` must be >= 1, got {count}; try 5")
    return range(count)


def _load(spec: str) -> tuple[str, str, NDArray[Any], NDArray[np.int64]]:
    source = open_source(spec)
    # The labels of a path are its folders, or a column or array with a usual name.
    for labels in ("folders",) if Path(spec).is_dir() else _LABELS:
        if source.y is not None or not Path(spec).exists():
            break
        with suppress(ValueError, OSError):
            source = open_source(spec, labels=labels)
    if source.y is None:
        raise ValueError(
            f"{spec!r} has no true labels to score with; name a set such as "
            "'digits', a folder with a sub-folder per class, or a file with labels 'y'"
        )
    return source.name, source.split, np.asarray(source.X), np.asarray(source.y, dtype=np.int64)


def _embed(X: NDArray[Any], source: str) -> NDArray[Any]:
    from unbend.networks import load_encoder

    embedding: NDArray[Any] = load_encoder(source).encode(X)
    return embedding


def _even_rows(y: NDArray[np.int64], n: int) -> NDArray[np.int64]:
    """About n rows, the same number from each class, the first ones of each."""
    classes = np.unique(y)
    each = -(-n // len(classes))
    return np.sort(np.concatenate([np.flatnonzero(y == c)[:each] for c in classes]))


def _shape(X: NDArray[Any]) -> tuple[int, ...]:
    return prepare(X[:2])[1].shape
