"""Named data sets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["NAMED_SETS", "NamedSet", "load_named"]


@dataclass(frozen=True)
class NamedSet:
    """Samples with their true labels, which only scoring may look at."""

    name: str
    split: str
    X: NDArray[Any]
    y: NDArray[np.int64]

    @property
    def n_classes(self) -> int:
        """Number of true classes."""
        return len(np.unique(self.y))


def _digits() -> NamedSet:
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    images = (X * (255 / 16)).round().astype(np.uint8).reshape(-1, 8, 8)
    return NamedSet("digits", "all", images, y.astype(np.int64))


NAMED_SETS: dict[str, Callable[[], NamedSet]] = {"digits": _digits}


def load_named(name: str) -> NamedSet:
    """Load a data set by its name.

    >>> load_named("digits").X.shape
    (1797, 8, 8)
    """
    if name not in NAMED_SETS:
        raise ValueError(f"no data set is called {name!r}; known: {', '.join(NAMED_SETS)}")
    return NAMED_SETS[name]()
