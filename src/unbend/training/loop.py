"""One loop for every stage: compute, check, descend, record."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from lightning_fabric import Fabric
from torch import Tensor
from torch.optim import Optimizer

from unbend.functional import numerical_rank
from unbend.progress import Progress, Tick
from unbend.training.guard import Guard, Trouble

__all__ = ["History", "Terms", "descend"]

History = list[dict[str, Any]]


class Terms(NamedTuple):
    """What a stage computes from one batch.

    ``loss`` is minimised; ``R`` and ``R_c`` are for the record (``R_c`` is None in stage 1);
    ``Z`` are the features that ``R`` was taken of.
    """

    loss: Tensor
    R: Tensor
    R_c: Tensor | None
    Z: Tensor


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
) -> History:
    """Run ``n_steps`` guarded steps and return a row per step.

    ``compute(step)`` draws the batch and returns its terms; ``lr_factor(step)`` scales every
    optimiser's own learning rate.
    """
    base = [[group["lr"] for group in o.param_groups] for o in optimizers]
    history: History = []
    for step in range(n_steps):
        try:
            terms = _differentiate(compute, step, optimizers, guard, fabric)
        except Trouble as trouble:
            if guard.restore(step, str(trouble)):
                continue
            break
        factor = lr_factor(step) * guard.lr_factor
        for optimizer, rates in zip(optimizers, base, strict=True):
            for group, rate in zip(optimizer.param_groups, rates, strict=True):
                group["lr"] = rate * factor
            optimizer.step()
        ranked = step % rank_every == 0 or step == n_steps - 1
        row = _row(guard.stage, step, terms, base[0][0] * factor, ranked)
        history.append(row)
        shown = {k: v for k, v in row.items() if isinstance(v, (int, float)) and k != "step"}
        progress(Tick(guard.stage, step + 1, n_steps, shown))
    return history


def _differentiate(
    compute: Callable[[int], Terms],
    step: int,
    optimizers: Sequence[Optimizer],
    guard: Guard,
    fabric: Fabric,
) -> Terms:
    """Terms of one step with their gradients in place, or Trouble."""
    with guard.watching():
        terms = compute(step)
    loss, R = float(terms.loss.detach()), float(terms.R.detach())
    problem = guard.trouble(loss, R)
    if problem is None:
        guard.healthy(step, loss, R)
        for optimizer in optimizers:
            optimizer.zero_grad(set_to_none=True)
        fabric.backward(terms.loss)
        problem = guard.bad_gradient()
    if problem is not None:
        raise Trouble(problem)
    return terms


def _row(stage: str, step: int, terms: Terms, lr: float, ranked: bool) -> dict[str, Any]:
    R = float(terms.R.detach())
    R_c = None if terms.R_c is None else float(terms.R_c.detach())
    return {
        "stage": stage,
        "step": step,
        "loss": float(terms.loss.detach()),
        "R": R,
        "R_c": R_c,
        "delta_R": None if R_c is None else R - R_c,
        "rank": numerical_rank(terms.Z.detach()) if ranked else None,
        "lr": lr,
    }
