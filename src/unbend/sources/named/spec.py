"""Types that describe a named data set."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unbend.sources.named.archives import DataStore

__all__ = ["Labelled", "NamedSet", "Recipe"]

Labelled = tuple[NDArray[np.uint8], NDArray[np.int64]]


@dataclass(frozen=True)
class NamedSet:
    """Samples with their true labels, which are used only for scoring.

    ``y`` is -1 where the set has no label; ``classes`` are the names of the labels.
    """

    name: str
    split: str
    X: NDArray[Any]
    y: NDArray[np.int64]
    classes: list[str] = field(default_factory=list)

    @property
    def n_classes(self) -> int:
        """Number of true classes."""
        return len(np.unique(self.y[self.y >= 0]))


@dataclass(frozen=True)
class Recipe:
    """How to read a named set.

    Parameters
    ----------
    load : callable
        ``load(store, split)`` returns samples and labels of one of ``parts``.
    classes : callable
        ``classes(store)`` returns the names of the labels.
    parts : sequence of str
        Splits stored as separate files. ``"all"`` is train followed by test.
    default : str
        The split used if none is given: that of the paper's tables.
    """

    load: Callable[[DataStore, str], Labelled]
    classes: Callable[[DataStore], list[str]]
    parts: Sequence[str] = ("train", "test")
    default: str = "train"

    @property
    def splits(self) -> tuple[str, ...]:
        """All valid splits."""
        return tuple(self.parts) if "all" in self.parts else (*self.parts, "all")

    def read(self, store: DataStore, split: str) -> Labelled:
        """Samples and labels of a split."""
        if split in self.parts:
            return self.load(store, split)
        train, test = self.load(store, "train"), self.load(store, "test")
        return np.concatenate([train[0], test[0]]), np.concatenate([train[1], test[1]])
