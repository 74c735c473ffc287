"""Recognise vectors that are the pixels of images.

Images are often passed on as a table with a row of numbers for each image. The columns show it: a
pixel is like the next one and like the one below it, which is a whole row of columns further on,
but not like the pixel half a row further on. In series neighbours are alike too, but likeness only
falls with distance.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

__all__ = ["pixel_side"]

_LEAST_SIDE = 8
_FEWEST = 500  # rows: with fewer, vectors are the better recipe for images too
_PILOT = 1000
_LEAST = 0.25  # correlation of neighbours, across and down
_LEAD = 0.2  # of neighbours below each other over columns half a row apart
_VARIES = 0.01  # of the columns' deviations: less means that the columns were standardised


def pixel_side(X: Tensor) -> int | None:
    """Side of the square gray images whose pixels are the columns of X (n, p); None for others.

    Standardised columns are left alone: an image of them has no black background.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> digits = torch.from_numpy(load_digits().data)
    >>> pixel_side(digits), pixel_side(digits[:, torch.arange(64) * 27 % 64])  # columns shuffled
    (8, None)
    """
    n, p = X.shape
    side = math.isqrt(p)
    if n < _FEWEST or side < _LEAST_SIDE or side**2 != p:
        return None
    spread = X.std(0)
    spread = spread[spread > 1e-6 * spread.max()]  # some pixels are never used
    if len(spread) < 2 or spread.std() < _VARIES * spread.mean():
        return None
    order = torch.randperm(n, generator=torch.Generator().manual_seed(0))[:_PILOT]
    rows = X[order.to(X.device)].cpu().double()
    rows = rows - rows.mean(0)
    grid = rows.view(-1, side, side)
    across = _alike(grid[:, :, 1:], grid[:, :, :-1])
    down = _alike(grid[:, 1:], grid[:, :-1])
    apart = max(_alike(rows[:, d:], rows[:, :-d]) for d in (side // 2, side + side // 2))
    return side if min(across, down) >= _LEAST and down - apart >= _LEAD else None


def _alike(a: Tensor, b: Tensor) -> float:
    """Correlation of all pairs together, so that pixels that hardly vary hardly count."""
    lengths = (a.square().sum() * b.square().sum()).sqrt().clamp_min(torch.finfo(a.dtype).tiny)
    return float((a * b).sum() / lengths)
