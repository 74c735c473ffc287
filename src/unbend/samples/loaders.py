"""Mini-batches of sample indices, equal in size, in an order fixed by a seed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

__all__ = ["Batches"]


class Batches:
    """Endless batches of indices 0..n-1: shuffle, split, repeat (line 4 of Algorithm 1).

    Each epoch is split into ``ceil(n / batch_size)`` batches whose sizes differ by at most one.
    This avoids a small last batch, in particular one of a single sample, which batch
    normalisation cannot use. The state after ``t`` batches depends only on the generator and
    ``t``.

    >>> batches = Batches(10, 4, torch.Generator().manual_seed(0))
    >>> [len(next(batches)) for _ in range(3)]
    [4, 3, 3]
    """

    def __init__(self, n: int, batch_size: int, generator: torch.Generator) -> None:
        self.n = n
        self.per_epoch = max(1, min(-(-n // batch_size), n // 2))
        self._generator = generator
        self._queue: list[Tensor] = []

    def __iter__(self) -> Iterator[Tensor]:
        return self

    def __next__(self) -> Tensor:
        if not self._queue:
            order = torch.randperm(self.n, generator=self._generator)
            self._queue = list(order.tensor_split(self.per_epoch))
        return self._queue.pop(0)

    def state(self) -> dict[str, Any]:
        """The remaining batches of this epoch. The caller saves the generator."""
        return {"queue": [batch.clone() for batch in self._queue]}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Continue from what :meth:`state` returned."""
        self._queue = list(state["queue"])
