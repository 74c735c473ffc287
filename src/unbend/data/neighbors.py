"""Exact nearest neighbours, block by block."""

from __future__ import annotations

import torch
from torch import Tensor

from unbend.progress import Progress, Tick, silent

__all__ = ["nearest_neighbors"]

_SHOWN_FROM = 5_000  # rows; fewer take no time worth showing


def nearest_neighbors(
    X: Tensor,
    k: int,
    block: int = 1024,
    progress: Progress = silent,
    *,
    metric: str = "euclidean",
) -> Tensor:
    """Indices (n, k) of each row's k nearest other rows.

    ``metric`` is ``"euclidean"``, or ``"cosine"`` for the angle between rows as seen from their
    mean, which suits embeddings: their length tells little about what they show.

    Exact, O(n²) time and O(block · n) memory. A row is never its own neighbour, even when the
    data hold copies of it; ``k`` is cut to ``n - 1``.

    >>> nearest_neighbors(torch.tensor([[0.0], [1.0], [5.0]]), 1).ravel().tolist()
    [1, 0, 1]
    """
    X = X.detach().flatten(1)
    n = len(X)
    k = min(k, n - 1)
    if k < 1:
        return torch.empty(n, 0, dtype=torch.long, device=X.device)
    # The expansion below loses digits far from the origin, too many of them for float32; rows of
    # length one are never far.
    X = X.double() if X.device.type != "mps" else X.float()
    X = X - X.mean(0)
    if metric == "cosine":
        X = torch.nn.functional.normalize(X, dim=1).float()
    squared = X.square().sum(1)
    found = torch.empty(n, k, dtype=torch.long, device=X.device)
    room = X.new_empty(min(block, n), n)
    for start in range(0, n, block):
        rows = torch.arange(start, min(start + block, n), device=X.device)
        # |x|² - 2 xᵀx', which lacks a constant per row, in one pass over memory.
        distance = torch.addmm(squared, X[rows], X.T, alpha=-2, out=room[: len(rows)])
        distance[torch.arange(len(rows), device=X.device), rows] = torch.inf
        found[rows] = distance.topk(k, largest=False).indices
        if n > _SHOWN_FROM:
            progress(Tick("neighbours", min(start + block, n), n))
    return found
