"""LARS: layer-wise adaptive rate scaling."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

__all__ = ["LARS"]


class LARS(Optimizer):
    """SGD with momentum whose step is scaled per layer by ‖w‖ / ‖∇w‖.

    You, Gitman, Ginsburg, "Large batch training of convolutional networks", 2017, in the form
    used by self-supervised learning: biases and normalisation parameters (all tensors of fewer
    than two dimensions) take plain steps without scaling or weight decay::

        g ← ∇w + weight_decay · w
        q = trust · ‖w‖ / ‖g‖                  (1 where a norm is 0)
        q = min(q / lr, 1)                     with `clip`
        m ← momentum · m + q · g
        w ← w − lr · m

    Parameters
    ----------
    params : iterable of Tensor
    lr : float
    momentum : float, default=0.9
    weight_decay : float, default=1e-4
    trust : float, default=0.02
        NMCE's value; the original has 0.001 with larger rates.
    clip : bool, default=True
        Limit the effective rate to the smaller of trust · ‖w‖ / ‖g‖ and lr, so that layers with
        small gradients do not take huge steps. Without it the rate is lr · trust · ‖w‖ / ‖g‖.
    """

    def __init__(
        self,
        params: Iterable[Tensor],
        lr: float,
        *,
        momentum: float = 0.9,
        weight_decay: float = 1e-4,
        trust: float = 0.02,
        clip: bool = True,
    ) -> None:
        if not lr > 0:
            raise ValueError(f"`lr` of LARS must be > 0, got {lr}; try 0.3")
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "weight_decay": weight_decay,
            "trust": trust,
            "clip": clip,
        }
        super().__init__(params, defaults)

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update every parameter that has a gradient."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for w in group["params"]:
                if w.grad is not None:
                    self._update(w, group)
        return loss

    def _update(self, w: nn.Parameter, group: dict[str, Any]) -> None:
        grad = w.grad
        if w.ndim >= 2:
            grad = grad.add(w, alpha=group["weight_decay"])  # type: ignore[union-attr]
            w_norm, g_norm = w.norm(), grad.norm()
            ratio = torch.where(
                (w_norm > 0) & (g_norm > 0),
                group["trust"] * w_norm / g_norm,
                torch.ones_like(w_norm),
            )
            if group["clip"]:
                ratio = (ratio / group["lr"]).clamp(max=1.0)
            grad = grad * ratio
        state = self.state[w]
        if "momentum" not in state:
            state["momentum"] = torch.zeros_like(w)
        momentum = state["momentum"].mul_(group["momentum"]).add_(grad)
        w.add_(momentum, alpha=-group["lr"])
