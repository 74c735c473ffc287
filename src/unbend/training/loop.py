"""The trainer of every stage: compute, check, descend, record.

How a stage uses it::

    method = fabric.setup_module(method)  # the whole module that the stage changes
    optimizer = fabric.setup_optimizers(optimizer)
    guard = Guard(method, [optimizer], "stage 1", dim, eps_sq)
    history = descend(
        lambda step: method([share(x) for x in views(next(batches))]),
        [optimizer],
        n_steps=total,
        lr_factor=schedule,
        guard=guard,
        fabric=fabric,
        progress=progress,
        after_step=method.after_step,
        parts={"views": views, "batches": batches, "generator": generator},
        record=record,
    )

``compute(step)`` draws a batch and returns its :class:`Terms`. With several processes it sends
its :func:`~unbend.training.distributed.share` of the views through the network and brings the
features together with :func:`~unbend.training.distributed.gather` before any loss. Everything
that a step changes must be in ``guard.network``, the optimisers or ``parts``: then a resumed run
is bit-equal to one that was never interrupted. ``record`` is what :func:`unbend.algorithm.solve`
hands down.

Accumulation is over the losses of micro-batches: the gradient of a step is the mean of the
gradients of ``accumulate`` calls of ``compute``. For losses that are means over samples this is
the gradient of one batch of that many times the size (batch normalisation aside). Rates and
memberships are no sums over samples; for them it is the mean of the rates of smaller batches,
which is a different, noisier objective. A larger batch on more processes keeps the objective.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, NamedTuple

import torch
from lightning_fabric import Fabric
from torch import Tensor, nn
from torch.optim import Optimizer

from unbend.functional import numerical_rank
from unbend.progress import Progress, Tick
from unbend.training.distributed import agree, average_gradients, is_main
from unbend.training.guard import Guard, Trouble
from unbend.training.interrupts import Interrupts
from unbend.training.record import History, Record
from unbend.training.state import capture, put_back

__all__ = ["Terms", "Watch", "descend"]


class Terms(NamedTuple):
    """What a stage computes from one batch.

    ``loss`` is minimised; ``R`` and ``R_c`` are for the record (``R_c`` is None in stage 1);
    ``Z`` are the features that ``R`` was taken of.
    """

    loss: Tensor
    R: Tensor
    R_c: Tensor | None
    Z: Tensor


class Watch(NamedTuple):
    """Look at a run from outside, every so many steps, without touching it.

    ``call(stage, step)`` may return numbers, such as the accuracy of a kNN classifier. They are
    shown with the progress and never enter training.
    """

    call: Callable[[str, int], Mapping[str, float] | None]
    every: int = 50


def descend(
    compute: Callable[[int], Terms],
    optimizers: Sequence[Optimizer],
    *,
    n_steps: int,
    lr_factor: Callable[[int], float],
    guard: Guard,
    fabric: Fabric,
    progress: Progress,
    rank_every: int = 10,
    accumulate: int = 1,
    max_norm: float = 0.0,
    before_step: Callable[[int], None] | None = None,
    after_step: Callable[[int], None] | None = None,
    watch: Watch | None = None,
    parts: Mapping[str, Any] | None = None,
    record: Record | None = None,
    unit: str = "samples",
) -> History:
    """Run ``n_steps`` guarded steps and return a row per step.

    Parameters
    ----------
    compute : callable
        ``compute(step)`` draws the next batch and returns its terms.
    optimizers : sequence of Optimizer
        All take a step after every gradient.
    n_steps : int
        Length of the stage.
    lr_factor : callable
        ``lr_factor(step)`` scales every optimiser's own learning rate.
    guard : Guard
        Of all that the stage changes; its name of the stage is the one in the history.
    fabric : Fabric
        Device and precision.
    progress : callable
        Told after every step.
    rank_every : int
        Steps between two looks at the rank of Z.
    accumulate : int
        Micro-batches per step, see above.
    max_norm : float
        Largest norm of the gradient of all parameters together; 0 is no limit.
    before_step, after_step : callable, optional
        Called once before the batches of a step are drawn, and after its update.
    watch : Watch, optional
        Who else looks on.
    parts : mapping, optional
        Whatever else the steps change (generator, batches, views), by name, each with a state
        (see :func:`~unbend.training.state.capture`). With it the last update of the stage is
        checked too, on a batch that is then put back.
    record : Record, optional
        Where the run goes on from and is kept.
    unit : str
        What a sample is called in the progress, as in ``images/s``.
    """
    trainer = _Trainer(
        compute,
        optimizers,
        n_steps,
        lr_factor,
        guard,
        fabric,
        progress,
        rank_every,
        accumulate,
        max_norm,
        before_step,
        after_step,
        watch,
        parts,
        record or Record(),
        unit,
    )
    return trainer.run()


@dataclass
class _Trainer:
    compute: Callable[[int], Terms]
    optimizers: Sequence[Optimizer]
    n_steps: int
    lr_factor: Callable[[int], float]
    guard: Guard
    fabric: Fabric
    progress: Progress
    rank_every: int
    accumulate: int
    max_norm: float
    before_step: Callable[[int], None] | None
    after_step: Callable[[int], None] | None
    watch: Watch | None
    parts: Mapping[str, Any] | None
    record: Record
    unit: str
    history: History = field(default_factory=list)

    def run(self) -> History:
        # Before anything is loaded: a saved optimiser has the rate of its last step.
        self._base = [[group["lr"] for group in o.param_groups] for o in self.optimizers]
        self._scaler = getattr(self.fabric._precision, "scaler", None)
        self._speed = _Speed()
        start, self.history, finished = self.record.resume(self.guard.stage, self._state)
        if finished:
            return self.history
        with Interrupts(self.record.active) as interrupts:
            step, going_on = start, True
            while step < self.n_steps and going_on:
                going_on = self._step(step)
                step += 1
                if interrupts.pending is not None:
                    self._keep(step)
                    interrupts.act()
                elif self.record.due():
                    self._keep(step)
            self.record.finish(self.guard.stage, step, self._state, self.history)
        return self.history

    @property
    def _state(self) -> dict[str, Any]:
        """Everything that a step changes."""
        own = {f"optimizer {i}": o for i, o in enumerate(self.optimizers)}
        if self._scaler is not None:
            own["scaler"] = self._scaler
        return {"network": self.guard.network, "guard": self.guard, **own, **(self.parts or {})}

    def _keep(self, step: int) -> None:
        self.record.save(self.guard.stage, step, self._state, self.history)

    def _step(self, step: int) -> bool:
        """One step from its batch to its row; False when the stage must end."""
        last = step == self.n_steps - 1
        try:
            terms = self._differentiate(step)
            lr = self._update(step)
        except Trouble as trouble:
            return self.guard.restore(step, str(trouble))
        if self.after_step is not None:
            self.after_step(step)
        ranked = step % self.rank_every == 0 or last
        self.history.append(_row(self.guard.stage, step, terms, lr, ranked))
        problem = self._last_problem() if last else None
        if problem is not None:
            return self.guard.restore(self.n_steps, problem, last=True)
        try:
            self._tell(step, len(terms.Z))
        except (KeyboardInterrupt, SystemExit):
            self._keep(step + 1)
            raise
        return True

    def _differentiate(self, step: int) -> Terms:
        """Terms of one step with their gradients in place, or Trouble."""
        if self.before_step is not None:
            self.before_step(step)
        for optimizer in self.optimizers:
            optimizer.zero_grad(set_to_none=True)
        all_terms = []
        for _ in range(self.accumulate):
            with self.guard.watching():
                terms = self.compute(step)
            loss, R = agree(float(terms.loss.detach()), float(terms.R.detach()))
            problem = self.guard.trouble(loss, R)
            if problem is not None:
                raise Trouble(problem)
            self.fabric.backward(
                terms.loss / self.accumulate if self.accumulate > 1 else terms.loss
            )
            all_terms.append(_detached(terms))
        terms = _mean(all_terms)
        self.guard.healthy(step, *agree(float(terms.loss), float(terms.R)))
        average_gradients(self._parameters())
        problem = None if self._scaler is not None else self.guard.bad_gradient()
        if problem is not None:
            raise Trouble(problem)
        return terms

    def _parameters(self) -> list[nn.Parameter]:
        groups = chain.from_iterable(o.param_groups for o in self.optimizers)
        return [p for group in groups for p in group["params"]]

    def _update(self, step: int) -> float:
        """Let all optimisers step; returns the first one's rate."""
        factor = self.lr_factor(step) * self.guard.lr_factor
        for optimizer, rates in zip(self.optimizers, self._base, strict=True):
            for group, rate in zip(optimizer.param_groups, rates, strict=True):
                group["lr"] = rate * factor
        if self._scaler is not None:
            self._scaled_update(self._scaler)
        else:
            self._clip()
            for optimizer in self.optimizers:
                optimizer.step()
        return float(self._base[0][0] * factor)

    def _scaled_update(self, scaler: torch.amp.GradScaler) -> None:
        """The same under a loss scaler, which must see all optimisers before it moves."""
        # Fabric moves the scale after each optimiser, so the second would undo another scale.
        bare = [getattr(o, "optimizer", o) for o in self.optimizers]
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
        if self.max_norm > 0:
            nn.utils.clip_grad_norm_(self._parameters(), self.max_norm)

    def _last_problem(self) -> str | None:
        """What is wrong after the last update, which no further step would notice."""
        weights = (p for p in self.guard.network.parameters() if p.requires_grad)
        if not all(bool(torch.isfinite(w).all()) for w in weights):
            return "the weights became infinite or NaN"
        if self.parts is None:
            return None
        parts = {"network": self.guard.network, **self.parts}
        before = capture(parts)
        try:
            with torch.no_grad(), self.guard.watching():
                terms = self.compute(self.n_steps)
            return self.guard.trouble(*agree(float(terms.loss), float(terms.R)))
        except Trouble as trouble:
            return str(trouble)
        finally:
            put_back(parts, before)

    def _tell(self, step: int, n: int) -> None:
        row = self.history[-1]
        shown = {k: v for k, v in row.items() if isinstance(v, (int, float)) and k != "step"}
        shown[f"{self.unit}/s"] = self._speed.after(n * self.accumulate)
        if not is_main():
            return
        if self.watch is not None and (step + 1) % self.watch.every == 0:
            shown |= self.watch.call(self.guard.stage, step) or {}
        self.progress(Tick(self.guard.stage, step + 1, self.n_steps, shown))


class _Speed:
    """Samples per second, the last steps counting most."""

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
    """Means over micro-batches; the features are the last one's."""
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
