"""The feature head and the cluster head."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn.functional import normalize

__all__ = ["Head"]


class Head(nn.Module):
    """Affine layers with non-linearities, then the projection to the sphere (§3.1).

    Parameters
    ----------
    n_in : int
        Width of h.
    dim : int
        d, the dimension of the representation.
    width, depth : int
        Width and number of hidden layers. ``depth=0`` is one affine map.
    norm : bool
        Batch normalisation before each ReLU.
    """

    def __init__(self, n_in: int, dim: int, width: int, depth: int, norm: bool) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for _ in range(depth):
            layers.append(nn.Linear(n_in, width, bias=not norm))
            if norm:
                layers.append(nn.BatchNorm1d(width))
            layers.append(nn.ReLU(inplace=True))
            n_in = width
        layers.append(nn.Linear(n_in, dim))
        self.dim = dim
        self.layers = nn.Sequential(*layers)

    def forward(self, h: Tensor) -> Tensor:
        return normalize(self.layers(h), dim=-1)
