"""Several processes, one batch: every process computes the loss of the whole batch.

Views are drawn by all processes from the same generator. Each sends its :func:`share` of them
through the network and gets the features of the others from :func:`gather`; Γ, the rates and
every other loss are then those of the global batch, the same number everywhere. Backwards,
``gather`` gives each process its own rows, times the number of processes, and
:func:`average_gradients` takes the mean over processes: this is the gradient of the one loss for
weights before the gathering (whose parts add up) and for weights after it (which are equal).
Alone, all functions do nothing.
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
    """How many processes train together."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def is_main() -> bool:
    """Whether this process is the first, the one that writes."""
    return n_processes() == 1 or dist.get_rank() == 0


def barrier() -> None:
    """Wait for all processes."""
    if n_processes() > 1:
        dist.barrier()


def agree(*numbers: float) -> list[float]:
    """The first process's numbers, so that all processes decide alike."""
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
    """Rows of all processes in their order, differentiable."""
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
        # Parts of equal length travel; the padding is cut off again.
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
    """Sum over all processes, differentiable: what each sent has a part in all results."""
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
    """Replace every gradient by its mean over processes, all in one message."""
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
