"""The training loop of every stage: compute, check, update, record.

A stage describes itself as a :class:`Stage`, and :func:`descend` runs it with the :class:`Tools`
of the run::

    method = tools.fabric.setup_module(method)  # the whole module that the stage changes
    optimizer = tools.fabric.setup_optimizers(optimizer)
    stage = Stage(
        lambda step: method([share(x) for x in views(next(batches))]),
        [optimizer],
        n_steps=total,
        guard=Guard(method, [optimizer], "stage 1", dim, eps_sq),
        parts={"views": views, "batches": batches, "generator": tools.generator},
    )
    history = descend(stage, tools)

``compute(step)`` draws a batch and returns its :class:`Terms`. With several processes it sends
its :func:`~unbend.training.distributed.share` of the views through the network and collects the
features with :func:`~unbend.training.distributed.gather` before it computes a loss. Everything
that a step changes must be in ``guard.network``, the optimisers or ``parts``: then a resumed run
is bit-equal to one that was never interrupted.

With ``accumulate`` > 1 the gradient of a step is the mean over that many calls of ``compute``.
For losses that are means over samples this equals the gradient of one batch that many times
larger (batch normalisation aside). Rates and memberships are not sums over samples: for them it
is the mean rate of smaller batches, a different and noisier objective. A larger batch spread over
more processes keeps the objective.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from unbend.functional import numerical_rank
from unbend.progress import Callback, Progress, Tick, silent
from unbend.threads import use_threads
from unbend.training.distributed import agree, average_gradients, is_main
from unbend.training.guard import Guard, Trouble
from unbend.training.interrupts import Interrupts
from unbend.training.record import History, Record
from unbend.training.state import capture, put_back

if TYPE_CHECKING:
    from lightning_fabric import Fabric

__all__ = ["Stage", "Terms", "Tools", "descend"]


class Terms(NamedTuple):
    """What a stage computes from one batch.

    ``loss`` is minimised; ``R`` and ``R_c`` are only recorded (``R_c`` is None in stage 1);
    ``Z`` holds the features that ``R`` was computed from.
    """

    loss: Tensor
    R: Tensor
    R_c: Tensor | None
    Z: Tensor


@dataclass(frozen=True)
class Tools:
    """What all stages of a run share."""

    fabric: Fabric  # device and precision
    generator: torch.Generator  # on the CPU; the only source of randomness
    progress: Progress = silent  # receives a Tick after every step
    record: Record = field(default_factory=Record)  # restores and saves checkpoints
    callbacks: Sequence[Callback] = ()  # further observers
    threads: int = 0  # for each step, see unbend.threads; 0 for all


@dataclass(frozen=True)
class Stage:
    """The full description of a training stage."""

    compute: Callable[[int], Terms]  # draws the next batch and returns its terms
    optimizers: Sequence[Optimizer]  # all of them step after every gradient
    n_steps: int
    guard: Guard  # watches everything that the stage changes; holds the name of the stage
    lr_factor: Callable[[int], float] = lambda step: 1.0  # multiplies every optimiser's own rate
    accumulate: int = 1  # micro-batches per step, see above
    max_norm: float = 0.0  # of the gradient of all parameters together; 0 means no limit
    rank_every: int = 10  # steps between two computations of the rank of Z
    before_step: Callable[[int], None] | None = None  # called before a step's batches are drawn
    after_step: Callable[[int], None] | None = None  # called after its update
    # Everything else that steps change (generator, batches, views), by name; each part has a state
    # (see unbend.training.state). If given, the last update of the stage is checked too, on an
    # extra batch whose side effects are then undone.
    parts: Mapping[str, Any] | None = None
    network: nn.Module | None = None  # passed to callbacks
    unit: str = "samples"  # the name of a sample in the progress display, as in images/s


def descend(stage: Stage, tools: Tools) -> History:
    """Run the guarded steps of a stage and return one row per step."""
    with use_threads(tools.threads):
        return _Trainer(stage, tools).run()


class _Trainer:
    def __init__(self, stage: Stage, tools: Tools) -> None:
        self.stage, self.tools, self.guard = stage, tools, stage.guard
        self.history: History = []

    def run(self) -> History:
        # Read the rates before resuming: a saved optimiser holds the rate of its last step.
        self._base = [[group["lr"] for group in o.param_groups] for o in self.stage.optimizers]
        self._scaler = getattr(self.tools.fabric._precision, "scaler", None)
        self._speed = _Speed()
        record = self.tools.record
        step, self.history, finished = record.resume(self.guard.stage, self._state)
        if finished:
            return self.history
        if step == 0:
            self._tell(0, {})
        with Interrupts(record.active) as interrupts:
            going_on = True
            while step < self.stage.n_steps and going_on:
                going_on = self._step(step)
                step += 1
                if interrupts.pending is not None:
                    self._keep(step)
                    interrupts.act()
                elif record.due():
                    self._keep(step)
            record.finish(self.guard.stage, step, self._state, self.history)
        return self.history

    @property
    def _state(self) -> dict[str, Any]:
        """Everything that a step changes."""
        own = {f"optimizer {i}": o for i, o in enumerate(self.stage.optimizers)}
        if self._scaler is not None:
            own["scaler"] = self._scaler
        parts = self.stage.parts or {}
        return {"network": self.guard.network, "guard": self.guard, **own, **parts}

    def _keep(self, step: int) -> None:
        self.tools.record.save(self.guard.stage, step, self._state, self.history)

    def _step(self, step: int) -> bool:
        """Run one step and record its row; return False if the stage must end."""
        last = step == self.stage.n_steps - 1
        try:
            terms = self._differentiate(step)
            lr = self._update(step)
        except Trouble as trouble:
            return self.guard.restore(step, str(trouble))
        if self.stage.after_step is not None:
            self.stage.after_step(step)
        ranked = step % self.stage.rank_every == 0 or last
        self.history.append(_row(self.guard.stage, step, terms, lr, ranked))
        problem = self._last_problem() if last else None
        if problem is not None:
            return self.guard.restore(self.stage.n_steps, problem, last=True)
        try:
            self._tell(step + 1, self._numbers(len(terms.Z)))
        except (KeyboardInterrupt, SystemExit):
            self._keep(step + 1)
            raise
        return True

    def _differentiate(self, step: int) -> Terms:
        """Compute the terms of one step and its gradients; raise Trouble if they are unusable."""
        accumulate = self.stage.accumulate
        if self.stage.before_step is not None:
            self.stage.before_step(step)
        for optimizer in self.stage.optimizers:
            optimizer.zero_grad(set_to_none=True)
        all_terms = []
        for _ in range(accumulate):
            with self.guard.watching():
                terms = self.stage.compute(step)
            loss, R = agree(float(terms.loss.detach()), float(terms.R.detach()))
            problem = self.guard.trouble(loss, R)
            if problem is not None:
                raise Trouble(problem)
            self.tools.fabric.backward(terms.loss / accumulate if accumulate > 1 else terms.loss)
            all_terms.append(_detached(terms))
        terms = _mean(all_terms)
        self.guard.healthy(step, *agree(float(terms.loss), float(terms.R)))
        average_gradients(self._parameters())
        problem = None if self._scaler is not None else self.guard.bad_gradient()
        if problem is not None:
            raise Trouble(problem)
        return terms

    def _parameters(self) -> list[nn.Parameter]:
        groups = chain.from_iterable(o.param_groups for o in self.stage.optimizers)
        return [p for group in groups for p in group["params"]]

    def _update(self, step: int) -> float:
        """Step all optimisers and return the first one's learning rate."""
        factor = self.stage.lr_factor(step) * self.guard.lr_factor
        for optimizer, rates in zip(self.stage.optimizers, self._base, strict=True):
            for group, rate in zip(optimizer.param_groups, rates, strict=True):
                group["lr"] = rate * factor
        if self._scaler is not None:
            self._scaled_update(self._scaler)
        else:
            self._clip()
            for optimizer in self.stage.optimizers:
                optimizer.step()
        return float(self._base[0][0] * factor)

    def _scaled_update(self, scaler: torch.amp.GradScaler) -> None:
        """Step all optimisers under a loss scaler."""
        # Fabric would update the scale after each optimiser, so the second one would be unscaled
        # by the wrong factor.
        bare = [getattr(o, "optimizer", o) for o in self.stage.optimizers]
        for optimizer in bare:
            scaler.unscale_(optimizer)
        self._clip()
        for optimizer in bare:
            scaler.step(optimizer)
        before = scaler.get_scale()
        scaler.update()
        problem = self.guard.skipped(scaler.get_scale() < before)
        if problem is not None:
            raise Trouble(problem)

    def _clip(self) -> None:
        if self.stage.max_norm > 0:
            nn.utils.clip_grad_norm_(self._parameters(), self.stage.max_norm)

    def _last_problem(self) -> str | None:
        """The problem after the last update, if any; no later step would notice it."""
        weights = (p for p in self.guard.network.parameters() if p.requires_grad)
        if not all(bool(torch.isfinite(w).all()) for w in weights):
            return "the weights became infinite or NaN"
        if self.stage.parts is None:
            return None
        parts = {"network": self.guard.network, **self.stage.parts}
        before = capture(parts)
        try:
            with torch.no_grad(), self.guard.watching():
                terms = self.stage.compute(self.stage.n_steps)
            return self.guard.trouble(*agree(float(terms.loss), float(terms.R)))
        except Trouble as trouble:
            return str(trouble)
        finally:
            put_back(parts, before)

    def _numbers(self, n: int) -> dict[str, float]:
        """The numbers of the last row, and samples per second."""
        row = self.history[-1]
        shown = {k: v for k, v in row.items() if isinstance(v, (int, float)) and k != "step"}
        shown[f"{self.stage.unit}/s"] = self._speed.after(n * self.stage.accumulate)
        return shown

    def _tell(self, done: int, values: Mapping[str, float]) -> None:
        """Call the callbacks, then show their values in the progress."""
        if not is_main():
            return
        tick = Tick(self.guard.stage, done, self.stage.n_steps, values, self.stage.network)
        for callback in self.tools.callbacks:
            more = callback(tick) or {}
            if not isinstance(more, Mapping):
                raise TypeError(
                    "a callback must return None or a dict of numbers to show, got "
                    f"{type(more).__name__}"
                )
            tick = replace(tick, values={**tick.values, **more})
        if done:
            self.tools.progress(tick)


class _Speed:
    """Samples per second, weighted towards recent steps."""

    def __init__(self) -> None:
        self._seconds = self._samples = 0.0
        self._then = time.perf_counter()

    def after(self, n: int) -> float:
        now = time.perf_counter()
        self._seconds = 0.9 * self._seconds + now - self._then
        self._samples = 0.9 * self._samples + n
        self._then = now
        return self._samples / max(self._seconds, 1e-9)


def _detached(terms: Terms) -> Terms:
    return Terms(*(None if t is None else t.detach() for t in terms))  # type: ignore[arg-type]


def _mean(all_terms: Sequence[Terms]) -> Terms:
    """Mean over micro-batches; the features are those of the last one."""
    if len(all_terms) == 1:
        return all_terms[0]

    def mean(values: Sequence[Tensor | None]) -> Tensor:
        return torch.stack([v for v in values if v is not None]).mean()

    loss, R, R_c, Z = zip(*all_terms, strict=True)
    return Terms(mean(loss), mean(R), None if R_c[0] is None else mean(R_c), Z[-1])


def _row(stage: str, step: int, terms: Terms, lr: float, ranked: bool) -> dict[str, Any]:
    R, R_c = float(terms.R), None if terms.R_c is None else float(terms.R_c)
    return {
        "stage": stage,
        "step": step,
        "loss": float(terms.loss),
        "R": R,
        "R_c": R_c,
        "delta_R": None if R_c is None else R - R_c,
        "rank": numerical_rank(terms.Z) if ranked else None,
        "lr": lr,
    }
