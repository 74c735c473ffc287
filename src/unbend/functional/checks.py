"""Checks of arguments, working precision, and a guard against second derivatives."""

from __future__ import annotations

import math
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor

__all__ = [
    "at_least_float32",
    "check_count",
    "check_positive",
    "check_tensor",
    "first_order_only",
    "full_precision",
    "working_dtype",
]


def check_positive(value: float, name: str, owner: str, example: float) -> float:
    """Return ``value`` as a float, or raise if it is not a finite number above zero."""
    if isinstance(value, (bool, Tensor)) or not hasattr(value, "__float__"):
        raise TypeError(
            f"`{name}` of {owner} must be a number, got {type(value).__name__}; try {example:g}"
        )
    number = float(value)
    if not (math.isfinite(number) and number > 0):
        raise ValueError(f"`{name}` of {owner} must be > 0, got {number}; try {example:g}")
    return number


def check_count(value: int, name: str, owner: str, example: int) -> int:
    """Return ``value``, or raise if it is not an integer of at least one."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(
            f"`{name}` of {owner} must be an integer, got {type(value).__name__}; try {example}"
        )
    count = value.__index__()
    if count < 1:
        raise ValueError(f"`{name}` of {owner} must be >= 1, got {count}; try {example}")
    return count


def check_tensor(value: Tensor, name: str, owner: str, axes: str, batched: bool = False) -> Tensor:
    """Return ``value``, or raise if it is not a real floating tensor with the named axes."""
    if not isinstance(value, Tensor):
        raise TypeError(
            f"`{name}` of {owner} must be a torch.Tensor, got {type(value).__name__}; "
            "try torch.as_tensor"
        )
    if not value.is_floating_point():
        raise TypeError(
            f"`{name}` of {owner} must be real floating point, got {value.dtype}; try .float()"
        )
    wanted = len(axes.split(","))
    if value.ndim < wanted or (value.ndim > wanted and not batched) or 0 in value.shape:
        shape = f"(..., {axes})" if batched else f"({axes})"
        raise ValueError(
            f"`{name}` of {owner} must have shape {shape}, none of them 0, "
            f"got {tuple(value.shape)}; rows are samples"
        )
    return value


def working_dtype(*tensors: Tensor) -> torch.dtype:
    """Widest dtype of the tensors, at least float32: half precision cannot hold determinants."""
    dtype = torch.float32
    for tensor in tensors:
        dtype = torch.promote_types(dtype, tensor.dtype)
    return dtype


def at_least_float32(tensor: Tensor) -> Tensor:
    """Half precision as float32; float64 stays as it is."""
    return tensor.to(working_dtype(tensor))


def full_precision(tensor: Tensor) -> AbstractContextManager[Any]:
    """Disable autocast, which would run matrix products in half precision."""
    return torch.autocast(device_type=tensor.device.type, enabled=False)


class _FirstOrderOnly(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, owner: str, gradient: Tensor, *inputs: Tensor) -> Tensor:
        ctx.owner = owner
        return gradient.view_as(gradient)

    @staticmethod
    def backward(ctx: Any, *_: Tensor) -> Any:
        raise NotImplementedError(
            f"{ctx.owner} has a first derivative only; call backward without create_graph=True"
        )


def first_order_only(owner: str, gradient: Tensor, *inputs: Tensor) -> Tensor:
    """Tie ``gradient`` to the inputs it depends on, so that differentiating it again is an error.

    Closed-form gradients are constants to autograd: without this, a second derivative would
    silently miss them.
    """
    if not torch.is_grad_enabled():
        return gradient
    guarded: Tensor = _FirstOrderOnly.apply(owner, gradient, *inputs)  # type: ignore[no-untyped-call]
    return guarded
