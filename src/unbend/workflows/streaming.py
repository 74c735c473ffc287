"""Read an array in chunks of rows, in constant memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unbend.disk import check_whole, forget_pages

__all__ = ["CHUNK_NUMBERS", "chunks", "slices"]

# Numbers in a chunk: a few thousand vectors or a few hundred photographs.
CHUNK_NUMBERS = 2**20
_LEAST_ROWS, _MOST_ROWS = 256, 8192


def slices(X: NDArray[Any]) -> Iterator[slice]:
    """Consecutive slices of the rows of X, each small enough to be held in memory."""
    width = max(1, int(np.prod(X.shape[1:])))
    size = max(_LEAST_ROWS, min(_MOST_ROWS, CHUNK_NUMBERS // width))
    for start in range(0, len(X), size):
        yield slice(start, min(start + size, len(X)))


def chunks(X: NDArray[Any]) -> Iterator[tuple[slice, NDArray[Any]]]:
    """Slices of X and copies of their rows."""
    for rows in slices(X):
        check_whole(X)
        yield rows, np.array(X[rows])
        forget_pages(X)
