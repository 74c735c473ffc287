"""Checks of the arguments of :func:`~unbend.labels.label_codes` and of prediction."""

from __future__ import annotations

import warnings

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unbend.exceptions import UnbendWarning

__all__ = ["check_choices", "check_positive", "check_width", "unit_rows"]

# Half precision leaves norms about 1e-3 off. A larger error means the rows are not normalised.
_NORM_TOLERANCE = 1e-2


def unit_rows(name: str, value: Tensor | NDArray[np.floating], where: str) -> Tensor:
    """A finite (n, d) float tensor with unit rows, at least float32, without gradient.

    Corrects norms that are off by rounding and raises on larger errors.
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
    # Do not copy exact unit rows: a copy of a million codes takes half a gigabyte.
    return tensor if off < 1e-5 else tensor / norms


def check_choices(
    n: int,
    n_features: int,
    n_clusters: int | str,
    method: str,
    methods: tuple[str, ...],
    max_clusters: int | None,
    n_landmarks: int | None,
) -> None:
    """Raise if a count does not fit the number of samples or the method does not exist."""
    if n_features != n:
        raise ValueError(f"`C` and `Z` must have the same number of rows, got {n} and {n_features}")
    if method not in ("auto", *methods):
        raise ValueError(f"`method` must be one of {('auto', *methods)}, got {method!r}")
    if n_clusters == "auto":
        if n < 5:
            raise ValueError(
                f'`n_clusters` = "auto" needs 5 samples or more, got {n}; give a number'
            )
        if max_clusters is not None:
            _check_count("max_clusters", max_clusters, 3, n - 2, "leave it out")
    else:
        _check_count("n_clusters", n_clusters, 1, n, 'or "auto"')
        if n_clusters == 1:  # scikit-learn's estimator checks require it
            message = "`n_clusters` = 1 puts all samples together; use 2 or more"
            warnings.warn(message, UnbendWarning, stacklevel=4)
    if n_landmarks is not None:
        if method in ("dense", "blocks"):
            raise ValueError(f'`n_landmarks` is not used by `method` = "{method}"; leave it out')
        least = n_clusters if isinstance(n_clusters, int) else 2
        _check_count("n_landmarks", n_landmarks, least, n, "leave it out")


def _check_count(name: str, value: object, low: int, high: int, hint: str) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise TypeError(f"`{name}` must be an integer, got {value!r}; {hint}")
    if not low <= value <= high:
        raise ValueError(f"`{name}` must be from {low} to {high}, got {value}; {hint}")


def check_positive(name: str, value: float, hint: str) -> None:
    """Raise unless the value is finite and above zero."""
    if not (np.isfinite(value) and value > 0):
        raise ValueError(f"`{name}` of label_codes must be > 0, got {value}; try {hint}")


def check_width(name: str, tensor: Tensor, d: int) -> None:
    """Raise if new samples do not have the width of the fitted ones."""
    if tensor.shape[1] != d:
        raise ValueError(
            f"`{name}` has {tensor.shape[1]} columns, but the model was fitted with {d}; "
            "use the output of the same head"
        )
