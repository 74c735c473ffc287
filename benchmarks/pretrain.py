"""Stage 1 compared with its bare backbone: the cost of augmentation, loss and data.

Run as ``python -m benchmarks.pretrain [--quick] [--json PATH]``. ResNet-18 in the form for small
images, 32 × 32 pixels. In each round every method takes one whole step, part by part, and the
bare backbone goes forward and backward over two views of the same batch. Exits with 1 if a
target is missed.

Images per second use wall-clock time. Shares are of processor time, which does not depend on other
work on the machine. Forward passes that are part of a method (momentum encoder, small crops) have
their own column.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor

from benchmarks.harness import Target, write_json
from unbend.config import PRESETS, PretrainConfig
from unbend.networks import Network, build_network
from unbend.pretrain.method import Follower, Stage1Method
from unbend.pretrain.registry import METHODS, build_method, fit_to_data
from unbend.samples import ViewSampler

BOUND = 0.15
WARM_UP = 8  # images of the first round, which is not counted
PARTS = ("data", "augmentation", "backbone", "other passes", "heads and loss", "update")


@dataclass(frozen=True)
class Plan:
    """How much to measure."""

    batch: int
    rounds: int
    samples: int


FULL = Plan(batch=256, rounds=3, samples=10_000)
QUICK = Plan(batch=64, rounds=1, samples=2_000)


@dataclass
class Clock:
    """Wall-clock and processor seconds of each round."""

    wall: dict[str, list[float]] = field(default_factory=dict)
    cpu: dict[str, list[float]] = field(default_factory=dict)

    def run(self, name: str, work: Callable[[], Any]) -> Any:
        start = time.perf_counter(), time.process_time()
        result = work()
        self.wall.setdefault(name, []).append(time.perf_counter() - start[0])
        self.cpu.setdefault(name, []).append(time.process_time() - start[1])
        return result

    def median(self, name: str, *, wall: bool = False) -> float:
        return statistics.median((self.wall if wall else self.cpu).get(name, [0.0]))


@dataclass
class Contestant:
    """A method with all that one of its steps needs."""

    method: Stage1Method
    views: ViewSampler
    optimizer: torch.optim.Optimizer
    clock: Clock = field(default_factory=Clock)

    def step(self, index: Tensor, number: int) -> None:
        """One step by the clock, part by part; only what is timed here is counted."""
        method, clock = self.method, self.clock
        clock.run("data", lambda: [self.views.samples[index] for _ in range(2)])
        views = clock.run("augmentation", lambda: method.draw(self.views, index))
        full = [x for x in views if x.shape == views[0].shape]
        full = full[:1] if hasattr(method, "queue") else full  # the keys' views go elsewhere
        h = clock.run("backbone", lambda: [method.network.embed(x) for x in full])
        others = clock.run("other passes", lambda: self._others(views))
        small, targets = others
        loss, leaves = clock.run("heads and loss", lambda: self._loss(views, h + small, targets))
        clock.run("heads and loss", loss.backward)
        self._merge("heads and loss")
        gradients = [leaf.grad for leaf in leaves]
        clock.run("backbone", lambda: torch.autograd.backward(h, gradients[: len(h)]))
        self._merge("backbone")
        if small:
            clock.run("other passes", lambda: torch.autograd.backward(small, gradients[len(h) :]))
            self._merge("other passes")
        clock.run("update", lambda: self._update(number))

    def _others(self, views: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        """Small crops through the backbone, and views through a momentum encoder."""
        small = [self.method.network.embed(x) for x in views if x.shape != views[0].shape]
        follower = next((m for m in self.method.children() if isinstance(m, Follower)), None)
        if follower is None:
            return small, []
        seen = views[1:] if hasattr(self.method, "queue") else views
        return small, [follower(self.method.normalized(x)) for x in seen]

    def _loss(
        self, views: list[Tensor], h: list[Tensor], targets: list[Tensor]
    ) -> tuple[Tensor, list[Tensor]]:
        """The method's own forward pass with the backbones' outputs given."""
        leaves = [x.detach().requires_grad_() for x in h]
        given, keys = iter(leaves), iter(targets)
        self.method.network.embed = lambda x: next(given)  # type: ignore[method-assign]
        follower = next((m for m in self.method.children() if isinstance(m, Follower)), None)
        if follower is not None:
            follower.forward = lambda x: next(keys)  # type: ignore[method-assign]
        try:
            return self.method(views).loss, leaves
        finally:
            del self.method.network.embed
            if follower is not None:
                del follower.forward

    def _update(self, number: int) -> None:
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        self.method.after_step(number)

    def _merge(self, name: str) -> None:
        """The last two times of a part are one."""
        for times in (self.clock.wall[name], self.clock.cpu[name]):
            times[-2:] = [times[-2] + times[-1]]


def contestants(samples: Tensor) -> dict[str, Contestant]:
    """Every method of the preset ``paper`` on a network of its own."""
    config = PRESETS["paper"]
    found = {}
    for name in METHODS:
        stage1: PretrainConfig = fit_to_data(replace(config.pretrain, method=name), len(samples))
        network = _network(samples)
        method = build_method(network, stage1, 1000, 0).train()
        views = ViewSampler(samples, config.views, torch.Generator().manual_seed(0))
        found[name] = Contestant(method, views, torch.optim.SGD(method.trainable(), 0.01, 0.9))
    return found


def bare(network: Network, views: Tensor) -> None:
    """Forward and backward through the backbone alone."""
    loss = sum((network.embed(x).square().mean() for x in views), start=torch.zeros(()))
    loss.backward()
    network.zero_grad(set_to_none=True)


def _network(samples: Tensor) -> Network:
    network = build_network(tuple(samples.shape[1:]), PRESETS["paper"].network, 0)
    network.normalize_like(samples)
    return network.train()


def measure(plan: Plan) -> list[dict[str, Any]]:
    """Rounds of every method and of the backbone; one row each."""
    generator = torch.Generator().manual_seed(0)
    samples = torch.rand(plan.samples, 3, 32, 32, generator=generator)
    rivals, network, clock = contestants(samples), _network(samples), Clock()
    for number in range(plan.rounds + 1):
        size = plan.batch if number else WARM_UP
        index = torch.randint(len(samples), (size,), generator=generator)
        pair = torch.stack([samples[index], samples[index]])
        clock.run("backbone", lambda pair=pair: bare(network, pair))
        for rival in rivals.values():
            rival.step(index, number)
        if number == 0:
            for watch in (clock, *(r.clock for r in rivals.values())):
                watch.wall.clear()
                watch.cpu.clear()
    base = clock.median("backbone"), clock.median("backbone", wall=True)
    rows = [{"method": "bare backbone", "images/s": plan.batch / base[1], "overhead": 0.0}]
    return rows + [_row(name, r.clock, plan.batch, base[0]) for name, r in rivals.items()]


def _row(name: str, clock: Clock, batch: int, base: float) -> dict[str, Any]:
    seconds = {part: clock.median(part) for part in PARTS}
    seconds["augmentation"] = max(0.0, seconds["augmentation"] - seconds["data"])
    added = seconds["data"] + seconds["augmentation"] + seconds["heads and loss"]
    wall = sum(clock.median(part, wall=True) for part in PARTS if part != "data")
    total = sum(seconds.values())
    return {
        "method": name,
        "images/s": batch / wall,
        "overhead": added / base,
        **{part: value / total for part, value in seconds.items()},
    }


def show(rows: list[dict[str, Any]], plan: Plan) -> None:
    """The table on standard output."""
    title = f"ResNet-18 at 32 px, batch {plan.batch}, two views; shares of a step's processor time"
    table = Table(title=title, title_justify="left")
    columns = ("method", "images/s", "overhead", *PARTS)
    for name in columns:
        table.add_column(name, justify="left" if name == "method" else "right")
    for row in rows:
        shares = [f"{100 * row[p]:.1f} %" if p in row else "" for p in PARTS]
        table.add_row(
            row["method"], f"{row['images/s']:.1f}", f"{100 * row['overhead']:.1f} %", *shares
        )
    Console(width=140).print(table)


def main() -> int:
    """Measure, print, and check the targets."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a smaller batch and fewer rounds")
    parser.add_argument("--json", metavar="PATH", help="write the figures there")
    options = parser.parse_args()
    plan = QUICK if options.quick else FULL
    rows = measure(plan)
    show(rows, plan)
    targets = [
        Target(f"{row['method']}: augmentation, loss and data over the backbone",
               row["overhead"], BOUND, at_least=False)
        for row in rows[1:]
    ]  # fmt: skip
    for target in targets:
        verdict = "holds" if target.passed else "MISSED"
        print(f"{verdict}: {target.name} {100 * target.measured:.1f} %, bound {100 * BOUND:.0f} %")
    if options.json:
        write_json(options.json, {"rows": rows, "targets": [t.as_dict() for t in targets]})
    return 0 if all(target.passed for target in targets) else 1


if __name__ == "__main__":
    sys.exit(main())
