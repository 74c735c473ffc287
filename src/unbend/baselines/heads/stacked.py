"""Several independent heads trained in parallel: every layer is one batched product."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, normalize, relu

__all__ = ["HeadSpec", "HeadStack", "StackedCosine", "StackedLinear"]


@dataclass(frozen=True)
class HeadSpec:
    """Shape of a stack of heads.

    Parameters
    ----------
    n_heads, n_in, n_out : int
        H heads from vectors of width ``n_in`` to ``n_out`` logits.
    hidden : tuple of int
        Widths of the hidden layers; none makes the heads linear.
    activation : {"relu", "gelu"}
        Between the layers.
    norm : bool
        Batch normalisation before each activation.
    cosine : bool
        The last layer is weight-normalised, without bias, on unit vectors, and the last hidden
        layer has no activation (TEMI's head).
    """

    n_heads: int
    n_in: int
    n_out: int
    hidden: tuple[int, ...] = ()
    activation: str = "relu"
    norm: bool = False
    cosine: bool = False


class StackedLinear(nn.Module):
    """H affine maps: (b, n_in) or (H, b, n_in) to (H, b, n_out)."""

    def __init__(
        self, n_heads: int, n_in: int, n_out: int, generator: torch.Generator | None = None
    ) -> None:
        super().__init__()
        bound = 1 / math.sqrt(n_in)  # torch's default for one such layer
        # With the heads as the middle dimension, a batch shared by all heads needs one plain
        # product. For narrow heads this is eight times faster than a batched product.
        self.weight, self.bias = (
            nn.Parameter(torch.rand(shape, generator=generator).mul_(2).sub_(1).mul_(bound))
            for shape in ((n_in, n_heads, n_out), (n_heads, 1, n_out))
        )

    def forward(self, x: Tensor) -> Tensor:
        n_in, n_heads, n_out = self.weight.shape
        if x.ndim == 3:
            return torch.baddbmm(self.bias, x, self.weight.transpose(0, 1))
        flat = torch.addmm(self.bias.flatten(), x, self.weight.view(n_in, -1))
        return flat.view(-1, n_heads, n_out).transpose(0, 1)


class StackedCosine(nn.Module):
    """H linear maps of unit vectors, with unit columns times learned gains."""

    def __init__(
        self, n_heads: int, n_in: int, n_out: int, generator: torch.Generator | None = None
    ) -> None:
        super().__init__()
        self.direction = nn.Parameter(torch.randn(n_heads, n_in, n_out, generator=generator))
        self.gain = nn.Parameter(torch.ones(n_heads, 1, n_out))

    def forward(self, x: Tensor) -> Tensor:
        weight = self.gain * normalize(self.direction, dim=1)
        x = x.expand(len(weight), *x.shape) if x.ndim == 2 else x
        return torch.bmm(normalize(x, dim=2), weight)


class StackedNorm(nn.Module):
    """Batch normalisation of every unit of every head."""

    def __init__(self, n_heads: int, width: int) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(n_heads * width)

    def forward(self, x: Tensor) -> Tensor:
        n_heads, n, width = x.shape
        flat = x.transpose(0, 1).reshape(n, n_heads * width)
        out: Tensor = self.norm(flat).view(n, n_heads, width).transpose(0, 1)
        return out


class HeadStack(nn.Module):
    """H heads of equal shape; maps vectors (b, n_in) to logits (H, b, n_out).

    >>> stack = HeadStack(HeadSpec(3, 5, 2, hidden=(4,)))
    >>> stack(torch.ones(7, 5)).shape
    torch.Size([3, 7, 2])
    """

    def __init__(self, spec: HeadSpec, generator: torch.Generator | None = None) -> None:
        super().__init__()
        self.spec = spec
        widths = (spec.n_in, *spec.hidden)
        self.hidden = nn.ModuleList(
            StackedLinear(spec.n_heads, a, b, generator) for a, b in pairwise(widths)
        )
        self.norms = nn.ModuleList(
            StackedNorm(spec.n_heads, width) for width in (spec.hidden if spec.norm else ())
        )
        last = StackedCosine if spec.cosine else StackedLinear
        self.last = last(spec.n_heads, widths[-1], spec.n_out, generator)

    def forward(self, x: Tensor) -> Tensor:
        activation = gelu if self.spec.activation == "gelu" else relu
        for i, layer in enumerate(self.hidden):
            x = layer(x)
            if self.norms:
                x = self.norms[i](x)
            if not (self.spec.cosine and i == len(self.hidden) - 1):
                x = activation(x)
        logits: Tensor = self.last(x)
        return logits
