"""Progress as plain data: long tasks emit ticks, and listeners display or inspect them."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

__all__ = [
    "Callback",
    "Progress",
    "Tick",
    "console_progress",
    "every",
    "say",
    "silent",
]


@dataclass(frozen=True)
class Tick:
    """One step of a named stage.

    ``done`` of ``total`` steps of ``stage`` are finished; ``values`` are live numbers worth
    showing, such as ``{"R": 180.2, "R_c": 95.1}``. During training, ``network`` is the trained
    network; callbacks may call its ``encode`` but must not change it.
    """

    stage: str
    done: int
    total: int
    values: Mapping[str, float] = field(default_factory=dict)
    network: Any = None


Progress = Callable[[Tick], None]
# Called before the first step of a training stage (``done`` is 0) and after each step, in the first
# of several processes. The numbers it returns are added to ``values`` and shown.
Callback = Callable[[Tick], Mapping[str, float] | None]

_SHOWN = ("R", "R_c", "delta_R", "rank", "images/s", "samples/s")
_WHOLE = ("rank", "images/s", "samples/s")


def say(text: str) -> None:
    """Print a line to standard error. A closed pipe or a full disk must not stop the work."""
    if sys.stderr is not None:  # print would fall back to standard output
        with suppress(OSError, ValueError):
            print(text, file=sys.stderr, flush=True)


def silent(tick: Tick) -> None:
    """Ignore all ticks (the default)."""


def every(n: int, callback: Callback) -> Callback:
    """Call the callback only after every n-th step.

    >>> look = every(2, lambda tick: {"seen": tick.done})
    >>> [look(Tick("stage 1", done, 4)) for done in range(5)]
    [None, None, {'seen': 2}, None, {'seen': 4}]
    """
    return lambda tick: callback(tick) if tick.done and tick.done % n == 0 else None


@contextmanager
def console_progress() -> Iterator[Progress]:
    """Show ticks on standard error: bars in a terminal, otherwise a line every few seconds."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield _plain_lines()
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )
    from rich.progress import (
        Progress as Bars,
    )

    columns = (
        TextColumn("{task.description:<10}"),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[numbers]}", style="dim"),
    )
    with Bars(*columns, console=Console(stderr=True)) as bars:
        tasks = {}

        def draw(tick: Tick) -> None:
            if tick.stage not in tasks:
                tasks[tick.stage] = bars.add_task(tick.stage, total=tick.total, numbers="")
            task = tasks[tick.stage]
            bars.update(task, completed=tick.done, total=tick.total, numbers=_numbers(tick))

        yield draw


def _plain_lines(every: float = 5.0) -> Progress:
    last: dict[str, float] = {}
    first: dict[str, tuple[float, int]] = {}

    def write(tick: Tick) -> None:
        now = time.monotonic()
        # A resumed stage does not start at 0; measure the rate from where it started.
        then, done = first.setdefault(tick.stage, (now, tick.done))
        due = now - last.get(tick.stage, -every) >= every
        if due or tick.done == tick.total:
            last[tick.stage] = now
            rest = _duration((now - then) * (tick.total - tick.done) / max(1, tick.done - done))
            left = f"{rest} left" if done < tick.done < tick.total else ""
            parts = (tick.stage, f"{tick.done}/{tick.total}", left, _numbers(tick))
            say("  ".join(filter(None, parts)))

    return write


def _duration(seconds: float) -> str:
    """Hours, minutes and seconds.

    >>> _duration(75), _duration(7384)
    ('1:15', '2:03:04')
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def _numbers(tick: Tick) -> str:
    values = {k: tick.values[k] for k in _SHOWN if k in tick.values}
    return "  ".join(f"{k} {v:.{0 if k in _WHOLE else 1}f}" for k, v in values.items())
