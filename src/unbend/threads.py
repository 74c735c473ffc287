"""Choose the number of threads by the size of the work, and restore it afterwards.

Two threads that share a small piece of work wait for each other most of the time. Beside another
busy program they wait for the scheduler too, and the work takes several times as long as on one
thread. The number depends on the problem alone, never on the load, so that results repeat.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch
from threadpoolctl import threadpool_limits

__all__ = ["allowed_threads", "threads_for", "use_threads"]

# Floating-point operations of a step; about a sixth of a second on one core. Its parts, the layers,
# are then still large enough to be shared.
_WORTH_SHARING = 1e10

_allowed: ContextVar[int | None] = ContextVar("allowed", default=None)


def allowed_threads() -> int:
    """The number of threads that the caller of the outermost :func:`use_threads` had set."""
    return _allowed.get() or torch.get_num_threads()


def threads_for(operations: float) -> int:
    """Threads for a step of that many operations: one, or 0 for all that are allowed."""
    return 0 if operations >= _WORTH_SHARING else 1


@contextmanager
def use_threads(n: int) -> Iterator[None]:
    """Use n threads inside this context, 0 for all that are allowed; never more than these.

    Contexts can be nested: within one for few threads, ``use_threads(0)`` takes all again.

    >>> before = torch.get_num_threads()
    >>> with use_threads(1):
    ...     print(torch.get_num_threads())
    1
    >>> torch.get_num_threads() == before
    True
    """
    before, allowed = torch.get_num_threads(), allowed_threads()
    token = _allowed.set(allowed)
    n = min(n or allowed, allowed)
    try:
        if n == before:
            yield
            return
        with threadpool_limits(n):  # of BLAS and OpenMP below NumPy and scikit-learn
            torch.set_num_threads(n)
            yield
    finally:
        torch.set_num_threads(before)
        _allowed.reset(token)
