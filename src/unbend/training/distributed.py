"""Data-parallel training in which every process computes the loss of the whole batch.

All processes draw the same views from equal generators. Each sends its :func:`share` of them
through the network and receives the features of the others from :func:`gather`, so Γ, the rates
and every other loss are those of the global batch and equal in all processes. In the backward
pass ``gather`` returns each process its own rows, times the number of processes, and
:func:`average_gradients` takes the mean over processes. The result is the gradient of the global
loss both for weights before ``gather`` (their partial gradients add up) and for weights after it
(their gradients are equal). With a single process these functions do nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

__all__ = [
    "agree",
    "average_gradients",
    "barrier",
    "gather",
    "is_main",
    "n_processes",
    "share",
    "sum_over_processes",
]


def n_processes() -> int:
    """Number of processes that train together."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def is_main() -> bool:
    """Whether this process is the first, the one that writes."""
    return n_processes() == 1 or dist.get_rank() == 0


def barrier() -> None:
    """Wait for all processes."""
    if n_processes() > 1:
        dist.barrier()


def agree(*numbers: float) -> list[float]:
    """Return the first process's numbers, so that all processes make the same decision."""
    if n_processes() == 1:
        return list(numbers)
    told = torch.tensor(numbers, dtype=torch.float64, device=_device())
    dist.broadcast(told, 0)
    return [float(number) for number in told]


def share(x: Tensor) -> Tensor:
    """The rows of a global batch that this process computes."""
    n = n_processes()
    if n == 1:
        return x
    if len(x) < n:
        raise ValueError(f"a batch of {len(x)} cannot be shared by {n} processes; use fewer")
    return x.tensor_split(n)[dist.get_rank()]


def gather(x: Tensor) -> Tensor:
    """Concatenate the rows of all processes in order; differentiable."""
    if n_processes() == 1:
        return x
    rows: Tensor = _Gather.apply(x)  # type: ignore[no-untyped-call]
    return rows


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        n, rank = dist.get_world_size(), dist.get_rank()
        lengths = [torch.zeros(1, dtype=torch.long, device=x.device) for _ in range(n)]
        dist.all_gather(lengths, torch.tensor([len(x)], device=x.device))
        sizes = [int(length) for length in lengths]
        # all_gather needs parts of equal length, so pad them and cut the padding off afterwards.
        padded = x.new_zeros(max(sizes), *x.shape[1:])
        padded[: len(x)] = x
        parts = [torch.empty_like(padded) for _ in range(n)]
        dist.all_gather(parts, padded)
        start = sum(sizes[:rank])
        ctx.rows = slice(start, start + sizes[rank])
        return torch.cat([part[:size] for part, size in zip(parts, sizes, strict=True)])

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return grad[ctx.rows] * dist.get_world_size()


def sum_over_processes(x: Tensor) -> Tensor:
    """Sum over all processes; differentiable."""
    if n_processes() == 1:
        return x
    total: Tensor = _Sum.apply(x)  # type: ignore[no-untyped-call]
    return total


class _Sum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return _reduced(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return _reduced(grad)


def _reduced(x: Tensor) -> Tensor:
    x = x.detach().clone(memory_format=torch.contiguous_format)
    dist.all_reduce(x)
    return x


def average_gradients(parameters: Iterable[nn.Parameter]) -> None:
    """Replace every gradient by its mean over processes, with a single all-reduce."""
    if n_processes() == 1:
        return
    grads = [p.grad for p in parameters if p.grad is not None]
    flat = torch.cat([grad.flatten() for grad in grads]) / n_processes()
    dist.all_reduce(flat)
    parts = torch.split(flat, [grad.numel() for grad in grads])
    for grad, part in zip(grads, parts, strict=True):
        grad.copy_(part.view_as(grad))


def _device() -> torch.device:
    return torch.device("cuda" if dist.get_backend() == "nccl" else "cpu")
