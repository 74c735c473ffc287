"""What a named data set is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unbend.data.named.shelf import Shelf

__all__ = ["Labelled", "NamedSet", "Recipe"]

Labelled = tuple[NDArray[np.uint8], NDArray[np.int64]]


@dataclass(frozen=True)
class NamedSet:
    """Samples with their true labels, which only scoring may look at.

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
    """How a named set is read.

    Parameters
    ----------
    load : callable
        ``load(shelf, split)`` gives samples and labels of one of ``parts``.
    classes : callable
        ``classes(shelf)`` gives the names of the labels.
    parts : sequence of str
        Splits with a file of their own. ``"all"`` is the train and the test part, in this order.
    default : str
        The split that is meant when none is said: the one of the paper's tables.
    """

    load: Callable[[Shelf, str], Labelled]
    classes: Callable[[Shelf], list[str]]
    parts: Sequence[str] = ("train", "test")
    default: str = "train"

    @property
    def splits(self) -> tuple[str, ...]:
        """All splits that may be asked for."""
        return tuple(self.parts) if "all" in self.parts else (*self.parts, "all")

    def read(self, shelf: Shelf, split: str) -> Labelled:
        """Samples and labels of a split."""
        if split in self.parts:
            return self.load(shelf, split)
        train, test = self.load(shelf, "train"), self.load(shelf, "test")
        return np.concatenate([train[0], test[0]]), np.concatenate([train[1], test[1]])
