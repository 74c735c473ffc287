"""Progress as plain data: long work emits ticks, whoever listens may draw them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

__all__ = ["Progress", "Tick", "silent"]


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


def silent(tick: Tick) -> None:
    """Listen to nothing (the default)."""
