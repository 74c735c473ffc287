"""Batch normalisation over the batches of all processes.

torch's SyncBatchNorm needs a GPU; this one works on any device.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from unbend.training.distributed import n_processes, sum_over_processes

__all__ = ["GlobalBatchNorm", "synchronize"]


class GlobalBatchNorm(_BatchNorm):
    """Batch normalisation whose mean and variance are those of the global batch.

    It has the same parameters and buffers as ``nn.BatchNorm1d`` and ``nn.BatchNorm2d``, and gives
    the same results as they do in one process with the whole batch. In evaluation mode, or with a
    single process, it is exactly that layer.
    """

    def _check_input_dim(self, input: Tensor) -> None:
        if input.ndim < 2:
            raise ValueError(f"expected at least 2 dimensions, got {input.ndim}")

    def forward(self, input: Tensor) -> Tensor:
        if not self.training or n_processes() == 1:
            return super().forward(input)
        x = input if input.dtype == torch.float64 else input.float()
        axes = (0, *range(2, x.ndim))
        shape = (1, -1, *[1] * (x.ndim - 2))
        count = x.new_tensor([x.numel() // x.shape[1]])
        total = sum_over_processes(torch.cat([x.sum(axes), count]))
        n = total[-1].detach()
        mean = total[:-1] / n
        # Two reductions, because E[x²] − E[x]² in one would lose precision.
        centred = x - mean.view(shape)
        var = sum_over_processes(centred.square().sum(axes)) / n
        self._follow(mean, var, float(n))
        out = centred * (var + self.eps).rsqrt().view(shape)
        if self.affine:
            out = out * self.weight.view(shape) + self.bias.view(shape)
        return out.to(input.dtype)

    @torch.no_grad()
    def _follow(self, mean: Tensor, var: Tensor, n: float) -> None:
        """Update the running statistics as torch does."""
        if self.running_mean is None or self.running_var is None:
            return
        assert self.num_batches_tracked is not None
        self.num_batches_tracked.add_(1)
        factor = 1 / float(self.num_batches_tracked) if self.momentum is None else self.momentum
        self.running_mean.lerp_(mean.to(self.running_mean), factor)
        self.running_var.lerp_((var * n / max(n - 1, 1)).to(self.running_var), factor)


def synchronize(module: nn.Module) -> nn.Module:
    """Replace every batch normalisation below ``module`` by a global one, in place.

    Call it before creating the optimisers. With a single process it does nothing.
    """
    if n_processes() == 1:
        return module
    for name, child in module.named_children():
        if isinstance(child, (nn.BatchNorm1d, nn.BatchNorm2d)):
            layer = GlobalBatchNorm(
                child.num_features,
                child.eps,
                child.momentum,
                child.affine,
                child.track_running_stats,
            ).train(child.training)
            layer._parameters, layer._buffers = child._parameters, child._buffers
            setattr(module, name, layer)
        else:
            synchronize(child)
    return module
