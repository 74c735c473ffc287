"""Sequences whose items are created on access; a million strings or paths need much memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

__all__ = ["LazySequence"]

T = TypeVar("T")


class LazySequence(Sequence[T]):
    """``make(row)`` for each of some rows.

    >>> names = LazySequence(str, range(5, 8))
    >>> names[0], list(names[1:])
    ('5', ['6', '7'])
    """

    def __init__(self, make: Callable[[int], T], rows: range | NDArray[np.int64]) -> None:
        self._make, self._rows = make, rows

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[T]: ...
    def __getitem__(self, index: Any) -> T | Sequence[T]:
        if isinstance(index, slice):
            return LazySequence(self._make, self._rows[index])
        return self._make(int(self._rows[index]))
