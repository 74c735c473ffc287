"""Plan the length of training: a cost model that keeps a fit within a budget of time.

The model counts floating-point operations and divides them by the speed of a reference machine, two
cores of a laptop. So the number of steps depends on the data and the settings only, and a run
repeats on any machine under any load. How long the steps take here is measured while they run and
shown; it changes nothing.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor, nn

from unbend.knobs import NetworkConfig, Stage1Config, Stage2Config
from unbend.networks import GIVEN, build_network
from unbend.progress import Progress, Tick
from unbend.rules import POSITIVE, Rule
from unbend.threads import threads_for

__all__ = [
    "BUDGET",
    "LEVELS",
    "Costs",
    "Part",
    "Plan",
    "costs_of",
    "fit_to_budget",
    "in_words",
    "seconds_allowed",
    "seconds_of",
]

# Operations per second of the reference: one core, and two cores on work that is worth sharing.
_ONE_CORE, _TWO_CORES = 60e9, 100e9
_BACKWARD = 3  # forward and backward take about three times the operations of forward
_LABELLING = 2e-4  # seconds per sample, for all labellings that are compared
_SINKHORN = 100  # operations per entry of a membership: projection, its gradient, its product
_OVERHEAD = 5e-3  # seconds of a step beside its operations
_MEASURED = 5  # steps, before the plan is told with its time on this machine
_EXACT = 50_000  # rows up to which neighbours are exact; faiss compares fewer
_FEWEST = 60  # steps of stage 1; with fewer it does not learn, whatever they cost


@dataclass(frozen=True)
class Level:
    """A budget by name: seconds up to 10,000 samples, and at most; steps beside the preset's."""

    seconds: float
    most: float
    steps: float
    all_etas: bool = True  # whether stage 2 runs for every sharpness, or for the first one


LEVELS = {
    "quick": Level(60, 200, 0.5, all_etas=False),
    "normal": Level(180, 600, 1.0),
    "thorough": Level(720, 2400, 3.0),
}
BUDGET = Rule(
    lambda v: v in LEVELS if isinstance(v, str) else POSITIVE.holds(v),
    f"one of {', '.join(LEVELS)}, or seconds > 0",
    "try 'normal'",
)


def seconds_allowed(budget: str | float, n: int) -> float:
    """Seconds of a fit of n samples on the reference machine.

    >>> [round(seconds_allowed("normal", n)) for n in (100, 10_000, 70_000, 10**6)]
    [180, 180, 579, 600]
    """
    if not isinstance(budget, str):
        return float(budget)
    level = LEVELS[budget]
    return min(level.most, level.seconds * float(max(1.0, n / 10_000) ** 0.6))


@dataclass(frozen=True)
class Costs:
    """Operations of a step of each stage, and seconds of the rest, on the reference machine."""

    stage1: float
    stage2: float
    rest: float

    def seconds(self, steps1: int, steps2: int) -> float:
        """Seconds of a whole fit."""
        return steps1 * seconds_of(self.stage1) + steps2 * seconds_of(self.stage2) + self.rest

    @property
    def threads(self) -> int:
        """How many threads the steps are worth; 0 for all."""
        return threads_for(max(self.stage1, self.stage2))


def costs_of(
    shape: tuple[int, ...],
    n: int,
    n_views: int,
    network: NetworkConfig,
    stage1: Stage1Config,
    stage2: Stage2Config,
) -> Costs:
    """The cost model, from the shape of a sample, their number and the settings."""
    forward = _operations(shape, network)
    d, rows = network.dim, min(stage2.batch_size, n)
    some = min(stage1.batch_size, n)
    columns = min(stage2.n_anchors or rows, rows)
    trained = _BACKWARD if stage2.train_backbone else 1
    rates = 3 * rows * columns * d * (d + 1)  # three products of packed outer products
    membership = _SINKHORN * n_views * rows**2
    search = 2.0 * n * min(n, _EXACT) * math.prod(shape)
    passes = 1 + len(stage2.sharpness) if stage2.eta == "auto" else 2
    rest = passes * n * forward + search
    return Costs(
        stage1=_BACKWARD * (n_views * some * forward + 2 * some * d**2 + d**3),  # and its rate R
        stage2=trained * n_views * rows * forward + rates + membership,
        rest=rest / _TWO_CORES + _LABELLING * n,
    )


def fit_to_budget(
    budget: str | float,
    costs: Costs,
    n: int,
    *,
    steps1: int,
    steps2: int,
    sharpness: tuple[float, ...],
) -> Mapping[str, Any]:
    """Settings that keep a fit within its budget.

    ``steps1`` is what the preset wants for stage 1; ``steps2`` are the steps of one run of stage 2.
    A named budget changes the wanted steps by its factor. Seconds buy as many steps as they pay
    for, between those of "quick" and of "thorough". At least 60 steps remain in any case. Where
    several runs of stage 2 do not fit, as with a thousand clusters, there is one.
    """
    level = LEVELS[budget] if isinstance(budget, str) else LEVELS["thorough"]
    allowed = seconds_allowed(budget, n)
    kept = sharpness if level.all_etas else sharpness[:1]
    least = _FEWEST if isinstance(budget, str) else steps1 // 2
    if allowed < costs.seconds(min(steps1, least), steps2 * len(kept)):
        kept = sharpness[:1]
    left = allowed - costs.seconds(0, steps2 * len(kept))
    affordable = int(left / max(seconds_of(costs.stage1), 1e-9))
    steps = max(min(round(steps1 * level.steps), affordable), min(steps1, _FEWEST))
    return {
        "pretrain.min_steps": steps,
        "pretrain.max_steps": steps,
        "stage2.sharpness": kept,
    }


def seconds_of(operations: float) -> float:
    """Seconds of one step on the reference machine."""
    return _OVERHEAD + operations / (_ONE_CORE if threads_for(operations) == 1 else _TWO_CORES)


@lru_cache(maxsize=64)
def _operations(shape: tuple[int, ...], config: NetworkConfig) -> float:
    """Operations of one sample on its way through the backbone and one head.

    A backbone that the caller gave as a module is not known here; it counts as nothing.
    """
    if config.backbone.startswith(GIVEN):
        return 0.0
    if config.project == "auto" and len(shape) == 1:  # at most that many directions are trained on
        shape = (min(shape[0], max(config.width, config.dim)),)
    found = 0.0

    def count(layer: nn.Module, inputs: Any, output: Tensor) -> None:
        nonlocal found
        places = output[0].numel() / layer.weight.shape[0]  # type: ignore[index]
        found += 2.0 * layer.weight.numel() * float(places)  # type: ignore[operator]

    with torch.device("meta"):
        network = build_network(shape, config, 0)
        for layer in network.modules():
            if isinstance(layer, (nn.Conv2d, nn.Linear)):
                layer.register_forward_hook(count)
        network.features(torch.empty(2, *shape))
    return found


@dataclass(frozen=True)
class Part:
    """A stage of training as planned: its name in ticks, its steps, seconds of one step."""

    name: str
    steps: int
    seconds: float


@dataclass(frozen=True)
class Plan:
    """The stages of a fit, the seconds of the rest, and the seconds allowed."""

    parts: tuple[Part, ...]
    rest: float
    budget: str | float
    allowed: float

    @property
    def seconds(self) -> float:
        """Seconds of the whole fit on the reference machine."""
        return sum(part.steps * part.seconds for part in self.parts) + self.rest

    def sentence(self) -> str:
        """The plan for people, before any step."""
        steps = ", ".join(f"{part.name} {part.steps} steps" for part in self.parts)
        name = self.budget if isinstance(self.budget, str) else "given"
        text = f"plan: {steps}; budget {name}, {in_words(self.allowed)} on two cores"
        if self.seconds > 1.5 * self.allowed:
            text += (
                f"; this needs about {in_words(self.seconds)}: fewer steps would not learn, or "
                "were asked for; an encoder or smaller images make steps cheaper"
            )
        return text

    def left_after(self, name: str, done: int) -> float | None:
        """Planned seconds after so many steps of a stage; None for a stage not in the plan."""
        names = [part.name for part in self.parts]
        if name not in names:
            return None
        here = names.index(name)
        later = sum(part.steps * part.seconds for part in self.parts[here + 1 :])
        part = self.parts[here]
        return max(0, part.steps - done) * part.seconds + later + self.rest

    def watch(self, listener: Progress) -> Progress:
        """A listener that adds to each tick the seconds left of the whole fit, as measured."""
        return _Clock(self, listener)


class _Clock:
    """Compares the time of steps with the plan."""

    def __init__(self, plan: Plan, listener: Progress) -> None:
        self.plan, self.listener = plan, listener
        self._first: dict[str, tuple[float, int]] = {}
        self._told = False

    def __call__(self, tick: Tick) -> None:
        planned = {part.name: part.seconds for part in self.plan.parts}
        if tick.stage not in planned:
            self.listener(tick)
            return
        now = time.monotonic()
        then, done = self._first.setdefault(tick.stage, (now, tick.done))
        steps = tick.done - done
        if steps < 1:
            self.listener(tick)
            return
        slower = (now - then) / steps / planned[tick.stage]
        left = (self.plan.left_after(tick.stage, tick.done) or 0.0) * slower
        if not self._told and steps >= _MEASURED:
            self._told = True
            here = (tick.total - done) * (now - then) / steps
            text = f"{tick.stage}: {tick.total} steps, about {in_words(here)}; whole fit: about "
            self.listener(Tick("plan", 1, 1, text=text + in_words(left + now - then)))
        self.listener(replace(tick, left=left))


def in_words(seconds: float) -> str:
    """A duration as people say it.

    >>> in_words(8.2), in_words(75), in_words(230), in_words(7000)
    ('8 s', '75 s', '4 min', '1.9 h')
    """
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
