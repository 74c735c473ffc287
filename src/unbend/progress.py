"""Progress as plain data: long work emits ticks, whoever listens may draw them."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

__all__ = ["Progress", "Tick", "console_progress", "silent"]


@dataclass(frozen=True)
class Tick:
    """One step forward in a named stage of work.

    ``done`` of ``total`` steps of ``stage`` are finished; ``values`` are live numbers worth
    showing, such as ``{"R": 180.2, "R_c": 95.1}``.
    """

    stage: str
    done: int
    total: int
    values: Mapping[str, float] = field(default_factory=dict)


Progress = Callable[[Tick], None]

_SHOWN = ("R", "R_c", "delta_R", "rank")


def silent(tick: Tick) -> None:
    """Listen to nothing (the default)."""


@contextmanager
def console_progress() -> Iterator[Progress]:
    """Draw ticks on standard error: bars in a terminal, a line every few seconds elsewhere."""
    if not sys.stderr.isatty():
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

    def write(tick: Tick) -> None:
        now = time.monotonic()
        due = now - last.get(tick.stage, -every) >= every
        if due or tick.done == tick.total:
            last[tick.stage] = now
            line = f"{tick.stage}  {tick.done}/{tick.total}  {_numbers(tick)}".rstrip()
            print(line, file=sys.stderr, flush=True)

    return write


def _numbers(tick: Tick) -> str:
    values = {k: tick.values[k] for k in _SHOWN if k in tick.values}
    return "  ".join(f"{k} {v:.1f}" if k != "rank" else f"{k} {v:.0f}" for k, v in values.items())
