"""Helpers that the figures share."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["BLUE", "GRAY", "ORANGE", "GREEN", "as_picture", "new_figure", "sample_by_class", "tidy"]

BLUE, ORANGE, GREEN, GRAY = "#2b6cb0", "#dd6b20", "#2a9d5c", "#4a5568"


def new_figure(width: float, height: float) -> Any:
    """An empty matplotlib figure that is not attached to a window."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("the picture needs matplotlib: pip install 'unbend[plot]'") from error
    return Figure(figsize=(width, height), layout="constrained")


def tidy(axes: Any) -> None:
    """Hide the upper and right spines and add a light grid."""
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.grid(axis="y", color="#e2e8f0", linewidth=0.8)
    axes.set_axisbelow(True)


def sample_by_class(y: NDArray[np.int64], each: int, seed: int = 0) -> NDArray[np.int64]:
    """Indices of at most ``each`` samples of every class, grouped by class."""
    rng = np.random.default_rng(seed)
    rows = [rng.permutation(np.flatnonzero(y == c))[:each] for c in np.unique(y)]
    return np.concatenate(rows)


def as_picture(x: NDArray[Any]) -> NDArray[np.float64]:
    """One sample as (h, w, 3) or (h, w) between 0 and 1; vectors become one row."""
    x = np.asarray(x, dtype=np.float64)
    if x.ndim == 1:
        x = x[None]
    if x.ndim == 3:
        x = x[0] if x.shape[0] == 1 else x.transpose(1, 2, 0)
    low, high = x.min(), x.max()
    return np.asarray((x - low) / (high - low if high > low else 1.0))
