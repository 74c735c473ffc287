"""The two fixed lists of problems: one to choose constants on, one to report.

A problem is a function without arguments that returns samples and true labels. Photographs are
already embedded, so that every method gets the same vectors.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unbend.disk import default_data_dir
from unbend.encoding import embed_images, open_cache
from unbend.experiments.problem import pairs_of_digits
from unbend.experiments.suite import synthetic
from unbend.experiments.suite.docstrings import docstring_vectors
from unbend.networks import load_encoder
from unbend.sources.named import load_named

__all__ = ["DEVELOPMENT", "LISTS", "TEST", "Labelled", "load_problem", "problem_names"]

Labelled = tuple[NDArray[Any], NDArray[np.int64]]


def load_problem(which: str, name: str) -> Labelled:
    """Samples and true labels of a problem of a list.

    >>> X, y = load_problem("development", "digits")
    >>> X.shape
    (1797, 64)
    """
    problem_names(which, [name])
    return LISTS[which][name]()


def problem_names(which: str, chosen: Sequence[str] = ()) -> list[str]:
    """Names of the chosen problems of a list, by default all; raise for unknown names."""
    if which not in LISTS:
        raise ValueError(f"`list` must be one of {', '.join(LISTS)}, got {which!r}")
    for name in chosen:
        if name not in LISTS[which]:
            known = ", ".join(LISTS[which])
            raise ValueError(f"the {which} list has no problem {name!r}; known: {known}")
    return [*(chosen or LISTS[which])]


def _images(name: str) -> Labelled:
    found = load_named(name, download=False)
    return found.X, found.y


def _vectors(load: Callable[[], Labelled]) -> Labelled:
    """Images as rows of numbers in [0, 1]."""
    X, y = load()
    return X.reshape(len(X), -1).astype(np.float32) / 255, y


def _as_images(load: Callable[[], Labelled]) -> Labelled:
    """Rows of square gray images, in whole numbers from 0 to 255."""
    X, y = load()
    side = math.isqrt(X.shape[1])
    X = 255 * (X - X.min()) / (X.max() - X.min())
    return X.round().astype(np.uint8).reshape(len(X), side, side), y


def _pairs() -> Labelled:
    problem = pairs_of_digits()
    return problem.X, problem.y


def _photographs(split: str, encoder: str, first: int = 0, last: int | None = None) -> Labelled:
    """CIFAR-10 through an encoder: photographs ``first`` to ``last`` of each class."""
    X, y = _images(f"cifar10:{split}")
    rows = np.sort(np.concatenate([np.flatnonzero(y == c)[first:last] for c in np.unique(y)]))
    return embed_images(load_encoder(encoder), X[rows], cache=open_cache()), y[rows]


def _table(name: str) -> Labelled:
    """A small set that ``make data`` extracted from a package."""
    path = default_data_dir() / "tables" / f"{name}.npz"
    if not path.is_file():
        raise FileNotFoundError(
            f"{path.name} is missing in {str(path.parent)!r}; install it with `make data`"
        )
    with np.load(path, allow_pickle=False) as arrays:
        return arrays["X"], arrays["y"]


def _imbalanced(load: Callable[[], Labelled], ratio: float = 10.0) -> Labelled:
    """Class sizes that fall geometrically, the last ``ratio`` times smaller than the first."""
    X, y = load()
    classes, sizes = np.unique(y, return_counts=True)
    keep = sizes.min() * ratio ** -np.linspace(0, 1, len(classes))
    rng = np.random.default_rng(6)
    rows = [
        rng.permutation(np.flatnonzero(y == c))[: round(m)]
        for c, m in zip(classes, keep, strict=True)
    ]
    chosen = np.sort(np.concatenate(rows))
    return X[chosen], y[chosen]


def _mnist_pairs(each: int = 60) -> Labelled:
    """The numbers 00 to 99, each written ``each`` times by two of MNIST's test digits."""
    X, y = _vectors(partial(_images, "mnist:test"))
    rng = np.random.default_rng(7)
    numbers = rng.permutation(np.repeat(np.arange(100), each))
    rows = [np.flatnonzero(y == digit) for digit in range(10)]
    left = [rng.choice(rows[number // 10]) for number in numbers]
    right = [rng.choice(rows[number % 10]) for number in numbers]
    return np.concatenate([X[left], X[right]], axis=1), numbers.astype(np.int64)


def _small_table(name: str) -> Labelled:
    """A table that scikit-learn ships."""
    from sklearn import datasets

    X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    return X.astype(np.float32), y.astype(np.int64)


_DIGITS = partial(_vectors, partial(_images, "digits"))
_MNIST = partial(_vectors, partial(_images, "mnist:test"))
_CIFAR_TEST = partial(_photographs, "test", "lite2")

DEVELOPMENT: dict[str, Callable[[], Labelled]] = {
    "digits": _DIGITS,
    "digits-images": partial(_images, "digits"),
    **{
        f"cifar10-{encoder}-{each}": partial(_photographs, "train", encoder, 0, each)
        for encoder in ("lite0", "lite2")
        for each in (60, 200, 1000)
    },
    "cifar10-folder-50": partial(_photographs, "train", "lite2", 1000, 1050),
    "digit-pairs": partial(_vectors, _pairs),
    "digit-pairs-images": _pairs,
    **{f"subspaces-{k}": partial(synthetic.subspaces, k) for k in (4, 7, 12, 20)},
    "subspaces-30x9": synthetic.shared_subspaces,
    "faces-under-light": synthetic.faces_under_light,
    "curves-10": synthetic.curves,
    "surfaces-8": synthetic.surfaces,
    "rings": synthetic.rings,
    "moons": synthetic.moons,
    "slanted-blobs": synthetic.slanted_blobs,
    "turned-objects": synthetic.turned_objects,
    "lookalikes": synthetic.lookalikes,
    "few-of-many": synthetic.few_of_many,
    "faces-under-light-images": partial(_as_images, synthetic.faces_under_light),
    "turned-objects-images": partial(_as_images, synthetic.turned_objects),
    "lookalikes-images": partial(_as_images, synthetic.lookalikes),
    "few-of-many-images": partial(_as_images, synthetic.few_of_many),
    "digits-imbalanced": partial(_imbalanced, _DIGITS),
    "cifar10-lite2-200-imbalanced": partial(
        _imbalanced, partial(_photographs, "train", "lite2", 0, 200)
    ),
    **{
        name: partial(_table, name)
        for name in ("satellite", "vowel", "vehicle", "glass", "soybean", "ionosphere", "dna")
    },
    **{name: partial(_small_table, name) for name in ("iris", "wine", "breast_cancer")},
}

TEST: dict[str, Callable[[], Labelled]] = {
    "mnist": _MNIST,
    "mnist-images": partial(_images, "mnist:test"),
    "fashion-mnist": partial(_vectors, partial(_images, "fashion-mnist:test")),
    "cifar10-lite2": _CIFAR_TEST,
    "letter": partial(_table, "letter"),
    "osuleaf": partial(_table, "osuleaf"),
    "arrowhead": partial(_table, "arrowhead"),
    "gunpoint": partial(_table, "gunpoint"),
    "italypowerdemand": partial(_table, "italypowerdemand"),
    "acsf1": partial(_table, "acsf1"),
    "japanesevowels": partial(_table, "japanesevowels"),
    "docstrings": docstring_vectors,
    "mnist-imbalanced": partial(_imbalanced, _MNIST),
    "cifar10-lite2-imbalanced": partial(_imbalanced, _CIFAR_TEST),
    "mnist-pairs": _mnist_pairs,
}

LISTS = {"development": DEVELOPMENT, "test": TEST}
