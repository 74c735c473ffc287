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
    "whole_run",
]


@dataclass(frozen=True)
class Tick:
    """One step of a named stage.

    ``done`` of ``total`` steps of ``stage`` are finished; ``values`` are live numbers worth
    showing, such as ``{"R": 180.2, "R_c": 95.1}``. During training, ``network`` is the trained
    network; callbacks may call its ``encode`` but must not change it. ``left`` are the seconds that
    the whole task still needs, where it has a plan. A tick with ``text`` is a message to show.
    """

    stage: str
    done: int
    total: int
    values: Mapping[str, float] = field(default_factory=dict)
    network: Any = None
    left: float | None = None
    text: str = ""


Progress = Callable[[Tick], None]
# Called before the first step of a training stage (``done`` is 0) and after each step, in the first
# of several processes. The numbers it returns are added to ``values`` and shown.
Callback = Callable[[Tick], Mapping[str, float] | None]

_SHOWN = ("R", "R_c", "delta_R", "rank", "images/s", "samples/s")
_WHOLE = ("rank", "images/s", "samples/s")
_WIDE = 130  # columns of a terminal that has room for bars and live numbers


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
    """Show ticks: bars in a terminal or a notebook, else lines on standard error."""
    if _in_notebook():
        with _notebook_progress() as draw_bars:
            yield draw_bars
        return
    if sys.stderr is None or not sys.stderr.isatty():
        yield _plain_lines()
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        TextColumn,
        TimeElapsedColumn,
    )
    from rich.progress import (
        Progress as Bars,
    )

    console = Console(stderr=True)
    columns = [
        TextColumn("{task.description:<10}"),
        BarColumn(bar_width=24 if console.width >= _WIDE else 16),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[left]}", style="cyan"),
    ]
    if console.width >= _WIDE:  # else rich would squeeze the bars to nothing
        columns.append(TextColumn("{task.fields[numbers]}", style="dim"))
    with Bars(*columns, console=console) as bars:
        tasks = {}

        remaining = _Remaining()

        def draw(tick: Tick) -> None:
            if tick.text:
                bars.console.print(tick.text, highlight=False, markup=False)
                return
            if tick.stage not in tasks:
                tasks[tick.stage] = bars.add_task(tick.stage, total=tick.total, numbers="", left="")
            task, left, numbers = tasks[tick.stage], remaining.after(tick), _numbers(tick)
            bars.update(task, completed=tick.done, total=tick.total, numbers=numbers, left=left)

        yield draw


# The stages of a run in their order, and the share of the time that each takes on a usual input.
_RUN = {
    "decode": 10, "reading": 1, "encode": 24, "choosing neighbours": 2, "neighbours": 2,
    "stage 1": 28, "number of clusters": 2, "stage 2": 12, "labels": 6, "writing": 8, "report": 5,
}  # fmt: skip


def whole_run(progress: Progress) -> Progress:
    """Pass ticks on, and after each one tell how far the whole run is, in per cent.

    >>> seen = []
    >>> tell = whole_run(lambda tick: seen.append((tick.stage, tick.done)))
    >>> tell(Tick("stage 1", 1, 2)), tell(Tick("report", 1, 1))
    (None, None)
    >>> seen
    [('whole run', 0), ('stage 1', 1), ('whole run', 53), ('report', 1), ('whole run', 100)]
    """
    reached = -1

    def tell(tick: Tick) -> None:
        nonlocal reached
        if reached < 0:  # its bar comes first
            reached = 0
            progress(Tick("whole run", 0, 100))
        progress(tick)
        if tick.stage not in _RUN:
            return
        names = list(_RUN)
        before = sum(_RUN[name] for name in names[: names.index(tick.stage)])
        share = tick.done / max(1, tick.total)
        now = int(before + _RUN[tick.stage] * min(1.0, share))
        if now > reached:  # stages that were skipped or repeated do not turn it back
            reached = now
            progress(Tick("whole run", reached, 100))

    return tell


@contextmanager
def _notebook_progress() -> Iterator[Progress]:
    """Bars below the cell of a notebook, updated in place."""
    from html import escape

    import IPython.display

    tools: Any = IPython.display
    rows: dict[str, str] = {}
    shown = tools.display(tools.HTML(""), display_id=True)
    last = 0.0

    def draw(tick: Tick) -> None:
        nonlocal last
        if tick.text:
            rows[tick.text] = f"<div><small>{escape(tick.text)}</small></div>"
            return
        text = f"{escape(tick.stage)} {tick.done}/{tick.total} {escape(_numbers(tick))}"
        bar = f'<progress max="{max(1, tick.total)}" value="{tick.done}"></progress>'
        rows[tick.stage] = f"<div><small>{bar} {text}</small></div>"
        now = time.monotonic()
        if shown is not None and (now - last > 0.2 or tick.done == tick.total):
            last = now
            shown.update(tools.HTML("".join(rows.values())))

    yield draw


def _in_notebook() -> bool:
    """Whether this process is the kernel of a notebook."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return type(shell).__name__ == "ZMQInteractiveShell"


def _plain_lines(every: float = 5.0) -> Progress:
    last: dict[str, float] = {}
    finished: dict[str, int] = {}
    remaining = _Remaining()

    def write(tick: Tick) -> None:
        if tick.text:
            say(tick.text)
            return
        if tick.done == 0 or finished.get(tick.stage) == tick.total == tick.done:
            return  # nothing is done yet, or a stage is repeated, as labels are for each labelling
        now, left = time.monotonic(), remaining.after(tick)
        due = now - last.get(tick.stage, -every) >= every
        if due or tick.done == tick.total:
            last[tick.stage] = now
            finished[tick.stage] = tick.total if tick.done == tick.total else -1
            parts = (tick.stage, f"{tick.done}/{tick.total}", left, _numbers(tick))
            say("  ".join(filter(None, parts)))

    return write


class _Remaining:
    """The time left, as text: of the whole task where a tick knows it, else of its stage."""

    def __init__(self) -> None:
        self._first: dict[str, tuple[float, int]] = {}

    def after(self, tick: Tick) -> str:
        now = time.monotonic()
        # A resumed stage does not start at 0; measure the rate from where it started.
        then, done = self._first.setdefault(tick.stage, (now, tick.done))
        if tick.left is not None:
            return f"{_duration(tick.left)} left in all"
        if not done < tick.done < tick.total:
            return ""
        rest = (now - then) * (tick.total - tick.done) / (tick.done - done)
        return f"{_duration(rest)} left"


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
