"""Detect collapse and non-finite numbers, restore a healthy state, and lower the rate."""

from __future__ import annotations

import math
import warnings
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from unbend.exceptions import CollapseWarning
from unbend.networks import Head
from unbend.training.distributed import n_processes
from unbend.training.state import capture, put_back

__all__ = ["RATE_FLOOR", "Guard", "Trouble"]

RATE_FLOOR = 0.15  # share of the best rate below which features count as collapsed


_NUMBERS = ("best_rate", "best_gain", "lr_factor", "n_restores", "_since_kept", "_skipped")
_MANY_SKIPPED = 30


class Trouble(ArithmeticError):
    """A step that must not be taken, and why."""


class _Kept(NamedTuple):
    step: int
    best_rate: float
    best_gain: float
    state: dict[str, Any]


class Guard:
    """Keeps recent healthy states of a network and its optimisers, and restores them.

    A step is unhealthy when its loss or a gradient is not finite; when the features lose their
    diversity, that is when the coding rate R falls below ``floor`` of its best value, measured
    from R₀ = log(1 + d/ε²), the rate of features that all point in one direction; or when the
    objective itself falls below ``floor`` of its best. The guard then restores a state from
    before the trouble and multiplies the learning rate by ``caution``.

    Parameters
    ----------
    network : Module
        Everything that the stage changes apart from the optimisers: the network, or a method that
        holds it.
    optimizers : sequence of Optimizer
    stage : str
        For messages.
    dim, eps_sq :
        d and ε² of R.
    every : int, default=10
        Steps between two saved states.
    floor : float, default=0.15
        Share of the best R - R₀ below which features count as collapsed.
    caution : float, default=0.3
        Factor on the learning rate after a restore.
    max_restores : int, default=5
        After this many the stage ends in its last healthy state.
    """

    def __init__(
        self,
        network: nn.Module,
        optimizers: Sequence[Optimizer],
        stage: str,
        dim: int,
        eps_sq: float,
        *,
        every: int = 10,
        floor: float = RATE_FLOOR,
        caution: float = 0.3,
        max_restores: int = 5,
    ) -> None:
        self.network, self.optimizers, self.stage = network, optimizers, stage
        self.collapsed_rate = math.log1p(dim / eps_sq)
        self.every, self.floor, self.caution = every, floor, caution
        self.max_restores = max_restores
        self.best_rate = self.best_gain = -math.inf
        self.lr_factor = 1.0
        self.n_restores = 0
        self._since_kept = every
        self._skipped = 0
        # Two states, of which the older is restored: the newer one may already be going wrong.
        self._kept: deque[_Kept] = deque(maxlen=2)

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Raise Trouble if a head returns numbers that are not finite.

        The coding rates would reject such features as invalid input; during training they mean
        that a step was too large.
        """
        # With several processes, raising in one would leave the others waiting. There the loss
        # shows the problem.
        alone = n_processes() == 1
        heads = [m for m in self.network.modules() if isinstance(m, Head) and alone]
        handles = [head.register_forward_hook(_refuse_lost_numbers) for head in heads]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def trouble(self, loss: float, R: float) -> str | None:
        """The problem with a step of this loss and coding rate, or None."""
        if not (math.isfinite(loss) and math.isfinite(R)):
            return f"the loss became {loss} and R {R}"
        if self.best_rate - self.collapsed_rate > 0.5:  # otherwise there is no diversity to lose
            share = (R - self.collapsed_rate) / (self.best_rate - self.collapsed_rate)
            if share < self.floor:
                return f"the features collapsed (R fell from {self.best_rate:.1f} to {R:.1f})"
        # Catches a membership that became uniform in stage 2: then R_c = R and no gain is left.
        if self.best_gain > 0.5 and -loss < self.floor * self.best_gain:
            return f"the objective fell from {self.best_gain:.1f} to {-loss:.1f}"
        return None

    def bad_gradient(self) -> str | None:
        """Describe the first gradient that is not finite, or None."""
        for name, parameter in self.network.named_parameters():
            if parameter.grad is not None and not torch.isfinite(parameter.grad).all():
                name = name.replace("_forward_module.", "")  # Fabric's wrapper
                return f"the gradient of {name} is not finite"
        return None

    def healthy(self, step: int, loss: float, R: float) -> None:
        """Record a healthy step before its update; save its state every few steps."""
        self.best_rate = max(self.best_rate, R)
        self.best_gain = max(self.best_gain, -loss)
        self._since_kept += 1
        if self._since_kept >= self.every:
            self._since_kept = 0
            state = capture(self._parts)
            self._kept.append(_Kept(step, self.best_rate, self.best_gain, state))

    def restore(self, step: int, problem: str, last: bool = False) -> bool:
        """Restore a healthy state and lower the rate; return False if the stage must end.

        ``last`` means that no steps remain.
        """
        self.n_restores += 1
        self.lr_factor *= self.caution
        if not self._kept:
            raise ValueError(
                f"{self.stage}: {problem} in the first step; check the samples for extreme values"
            )
        kept = self._kept[0]
        # Forget everything after that state: the newer state, and best rates beside which the
        # older state would look collapsed.
        self._kept = deque([kept], maxlen=2)
        self._since_kept = self._skipped = 0
        self.best_rate, self.best_gain = kept.best_rate, kept.best_gain
        put_back(self._parts, kept.state)
        for optimizer in self.optimizers:
            optimizer.zero_grad(set_to_none=True)
        going_on = self.n_restores <= self.max_restores and not last
        then = (
            f"went on with {self.lr_factor:.2g} times the learning rate"
            if going_on
            else "ended the stage there" + f" after {self.n_restores} attempts" * (not last)
        )
        warnings.warn(
            f"{self.stage}: {problem} at step {step}; restored step {kept.step} and {then}",
            CollapseWarning,
            stacklevel=4,
        )
        return going_on

    def skipped(self, was_skipped: bool) -> str | None:
        """The problem if a loss scaler keeps skipping steps, or None.

        With 16 bits a scaler tries large factors and skips the steps where they overflow. That is
        normal, unless it never stops.
        """
        self._skipped = self._skipped + 1 if was_skipped else 0
        if self._skipped < _MANY_SKIPPED:
            return None
        return f"gradients were not finite in {self._skipped} steps in a row"

    def state(self) -> dict[str, Any]:
        """The state of the guard, for a checkpoint."""
        return {name: getattr(self, name) for name in _NUMBERS} | {
            "kept": [kept._asdict() for kept in self._kept]
        }

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Restore a state returned by :meth:`state`."""
        for name in _NUMBERS:
            setattr(self, name, state[name])
        self._kept = deque((_Kept(**kept) for kept in state["kept"]), maxlen=2)

    @property
    def _parts(self) -> dict[str, Any]:
        return {"network": self.network} | {str(i): o for i, o in enumerate(self.optimizers)}


def _refuse_lost_numbers(module: nn.Module, inputs: Any, output: Tensor) -> None:
    if not torch.isfinite(output).all():
        raise Trouble("the features became infinite or NaN")
