"""Nearest neighbours in one of several metrics: exact, or of many rows approximate."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import normalize

from unbend.knobs import RIDGE, is_metric
from unbend.progress import Progress, Tick, silent
from unbend.samples.approximate import approximate_neighbors, has_faiss
from unbend.threads import threads_for, use_threads

__all__ = ["nearest_neighbors"]

_EXACT_UP_TO = 50_000  # rows; a search of twice as many takes four times as long
_SHOWN_FROM = 5_000  # rows; smaller searches finish too fast to need a progress bar


def nearest_neighbors(
    X: Tensor,
    k: int,
    block: int = 1024,
    progress: Progress = silent,
    *,
    metric: str = "euclidean",
    exact_up_to: int = _EXACT_UP_TO,
) -> Tensor:
    r"""Indices (n, k) of each row's k nearest other rows, the nearest first.

    Exact, O(n²) time and O(block · n) memory; on the CPU, above ``exact_up_to`` rows and with faiss
    installed, approximate, see :func:`~unbend.samples.approximate.approximate_neighbors`. A row is
    never its own neighbour, even when the data hold copies of it; ``k`` is cut to ``n - 1``.

    Parameters
    ----------
    X : Tensor of shape (n, ...)
        Samples; images are flattened.
    k : int
        Number of neighbours.
    metric : str
        ``"euclidean"``. ``"standardized"``: the same after every column is scaled to unit
        variance. ``"cosine"``: the angle between rows as seen from their mean, which suits
        embeddings. ``"ridge:w"``: self-expressive neighbours, those with the largest coefficients
        |C| when every centred unit row is written by the others,
        :math:`\min_C ‖X - C X‖² + w n ‖C‖²`, as in :class:`~unbend.baselines.LSR` with
        α = w n. They follow linear subspaces, where nearby rows may lie in another one.

    Examples
    --------
    >>> nearest_neighbors(torch.tensor([[0.0], [1.0], [5.0]]), 1).ravel().tolist()
    [1, 0, 1]
    """
    X = X.detach().flatten(1)
    n = len(X)
    k = min(k, n - 1)
    if k < 1:
        return torch.empty(n, 0, dtype=torch.long, device=X.device)
    X, lengths = _place(X, metric)
    if n > exact_up_to and X.device.type == "cpu":
        if has_faiss():
            found = approximate_neighbors(X, k, absolute=lengths is None, progress=progress)
            progress(Tick("neighbours", n, n, text=found.reason()))
            return found.neighbors
        hint = "pip install 'unbend[peers]' brings faiss, which needs a fraction of the time"
        progress(Tick("neighbours", 0, n, text=f"exact neighbours of {n} samples; {hint}"))
    with use_threads(threads_for(2.0 * n * n * X.shape[1])):
        return _search(X, lengths, k, block, progress)


def _search(X: Tensor, lengths: Tensor | None, k: int, block: int, progress: Progress) -> Tensor:
    n = len(X)
    found = torch.empty(n, k, dtype=torch.long, device=X.device)
    room = X.new_empty(min(block, n), n)
    for start in range(0, n, block):
        rows = torch.arange(start, min(start + block, n), device=X.device)
        if lengths is None:
            distance = torch.mm(X[rows], X.T, out=room[: len(rows)]).abs_().neg_()
        else:
            # |x'|² - 2 xᵀx' in one pass over memory; |x|² is constant per row and not needed.
            distance = torch.addmm(lengths, X[rows], X.T, alpha=-2, out=room[: len(rows)])
        distance[torch.arange(len(rows), device=X.device), rows] = torch.inf
        found[rows] = distance.topk(k, largest=False).indices
        if n > _SHOWN_FROM:
            progress(Tick("neighbours", min(start + block, n), n))
    return found


def _place(X: Tensor, metric: str) -> tuple[Tensor, Tensor | None]:
    """Rows to compare and their squared lengths; lengths of None mean: rank by |products|."""
    if not is_metric(metric):
        raise ValueError(
            f"`metric` must be euclidean, standardized, cosine or ridge:WEIGHT, got {metric!r}; "
            "try 'euclidean'"
        )
    # The expansion of squared distances loses too many digits for float32 when rows are far from
    # the origin. Unit rows are safe.
    X = X.double() if X.device.type != "mps" else X.float()
    X = X - X.mean(0)
    if metric.startswith(RIDGE):
        return _whitened(normalize(X, dim=1), float(metric.removeprefix(RIDGE))).float(), None
    if metric == "standardized":
        spread = X.std(0)
        X = X / torch.where(spread > 1e-9 * spread.max(), spread, torch.ones_like(spread))
    if metric == "cosine":
        X = normalize(X, dim=1).float()
    return X, X.square().sum(1)


def _whitened(X: Tensor, weight: float) -> Tensor:
    """Rows W with W Wᵀ = X (XᵀX + w n I)⁻¹ Xᵀ.

    Up to a factor per row, this is the matrix of the ridge codes without their diagonal, so its
    largest entries per row are the self-expressive neighbours. It comes from the smaller Gram
    matrix; nothing of size n × n is stored when n > p.
    """
    n, p = X.shape
    shift = weight * n
    if p <= n:
        values, vectors = torch.linalg.eigh(X.T @ X)
        whitened: Tensor = X @ (vectors / (values.clamp_min(0) + shift).sqrt())
    else:
        values, vectors = torch.linalg.eigh(X @ X.T)
        whitened = vectors * (values.clamp_min(0) / (values.clamp_min(0) + shift)).sqrt()
    return whitened
