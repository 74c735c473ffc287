"""What a user can get wrong, said in one line."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

__all__ = ["check_n_clusters", "check_positive", "check_width", "unit_rows"]

# Heads that run in half precision leave norms about 1e-3 off; more means not normalised.
_NORM_TOLERANCE = 1e-2


def unit_rows(name: str, value: Tensor | NDArray[np.floating], where: str) -> Tensor:
    """A finite (n, d) float tensor with unit rows, at least float32, without gradient.

    Norms that are off by rounding are corrected; anything else is refused.
    """
    tensor = torch.as_tensor(value).detach()
    if not tensor.is_floating_point():
        raise TypeError(f"`{name}` of {where} must be floating point, got {tensor.dtype}")
    if tensor.ndim != 2 or 0 in tensor.shape:
        raise ValueError(f"`{name}` of {where} must be (n, d), got shape {tuple(tensor.shape)}")
    if tensor.dtype not in (torch.float32, torch.float64):
        tensor = tensor.float()
    norms = tensor.norm(dim=1, keepdim=True)
    if not bool(norms.isfinite().all()):
        row = int((~norms[:, 0].isfinite()).nonzero()[0, 0])
        raise ValueError(f"`{name}` of {where} has NaN or infinite values, first in row {row}")
    off = float((norms - 1).abs().max())
    if off > _NORM_TOLERANCE:
        low, high = float(norms.min()), float(norms.max())
        raise ValueError(
            f"`{name}` of {where} must have rows of length 1, got lengths from {low:.3g} to "
            f"{high:.3g}; use torch.nn.functional.normalize"
        )
    # Exact unit rows are kept as they are: a copy of a million codes costs half a gigabyte.
    return tensor if off < 1e-5 else tensor / norms


def check_n_clusters(n_clusters: int | str, n: int) -> None:
    """``"auto"``, or an integer from 2 to n."""
    if n_clusters == "auto":
        return
    if isinstance(n_clusters, bool) or not isinstance(n_clusters, (int, np.integer)):
        raise TypeError(f'`n_clusters` must be an integer or "auto", got {n_clusters!r}')
    if not 2 <= n_clusters <= n:
        raise ValueError(
            f"`n_clusters` must be from 2 to the number of samples ({n}), got {n_clusters}"
        )


def check_positive(name: str, value: float, hint: str) -> None:
    """A finite number above zero."""
    if not (np.isfinite(value) and value > 0):
        raise ValueError(f"`{name}` of label_codes must be > 0, got {value}; try {hint}")


def check_width(name: str, tensor: Tensor, d: int) -> None:
    """New samples must come from the same head."""
    if tensor.shape[1] != d:
        raise ValueError(
            f"`{name}` has {tensor.shape[1]} columns, but the model was fitted with {d}; "
            "use the output of the same head"
        )
