"""Delay Ctrl-C and SIGTERM to the end of a step, so that the saved state is consistent."""

from __future__ import annotations

import signal
import threading
from types import TracebackType
from typing import Any

__all__ = ["Interrupts"]

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupts:
    """Context that delays the first signal; a second one takes effect at once.

    Parameters
    ----------
    active : bool
        Whether to delay signals. Python delivers them to the main thread only, so in any other
        thread this context does nothing.
    """

    def __init__(self, active: bool) -> None:
        self.active = active and threading.current_thread() is threading.main_thread()
        self.pending: int | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Interrupts:
        if self.active:
            self._before = {s: signal.signal(s, self._note) for s in _SIGNALS}
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._restore()
        if self.pending is not None and error is None:
            self.act()

    def act(self) -> None:
        """Raise the delayed signal with the original handlers in place."""
        pending, self.pending = self.pending, None
        self._restore()
        if pending is not None:
            signal.raise_signal(pending)

    def _note(self, number: int, frame: Any) -> None:
        again = self.pending is not None
        self.pending = number
        if again:
            self.act()

    def _restore(self) -> None:
        for number, handler in self._before.items():
            if handler is not None:  # None: not installed from Python, so we cannot restore it
                signal.signal(number, handler)
        self._before = {}
