"""Rows of any array, piece by piece, in memory that does not grow with it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unbend.data.pages import forget_pages

__all__ = ["CHUNK_NUMBERS", "chunks"]

# Numbers in a piece: a few thousand vectors, or some hundred photographs.
CHUNK_NUMBERS = 2**20
_LEAST_ROWS, _MOST_ROWS = 256, 8192


def chunks(X: NDArray[Any]) -> Iterator[tuple[slice, NDArray[Any]]]:
    """Slices of X and copies of their rows."""
    width = max(1, int(np.prod(X.shape[1:])))
    size = max(_LEAST_ROWS, min(_MOST_ROWS, CHUNK_NUMBERS // width))
    for start in range(0, len(X), size):
        rows = slice(start, min(start + size, len(X)))
        yield rows, np.array(X[rows])
        forget_pages(X)
