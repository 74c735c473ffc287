"""Nearest neighbours in one of several metrics: exact, or of many rows approximate."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor
from torch.nn.functional import normalize

from unbend.knobs import RIDGE, is_metric
from unbend.progress import Progress, Tick, silent
from unbend.samples.approximate import approximate_neighbors, has_faiss
from unbend.samples.directions import principal_directions, standardized
from unbend.threads import threads_for, use_threads

__all__ = [
    "nearest_neighbors",
    "neighbors_by",
    "place",
]

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
    return next(neighbors_by(X, k, (metric,), block, progress, exact_up_to))


def neighbors_by(
    X: Tensor,
    k: int,
    metrics: Sequence[str],
    block: int = 1024,
    progress: Progress = silent,
    exact_up_to: int = _EXACT_UP_TO,
) -> Iterator[Tensor]:
    """What :func:`nearest_neighbors` returns, for several metrics in turn.

    Ridge metrics differ in their weight only; one decomposition serves all of them.
    """
    X = X.detach().flatten(1)
    # The expansion of squared distances loses too many digits for float32 when rows are far from
    # the origin. Unit rows are safe.
    X = X.double() if X.device.type != "mps" else X.float()
    X = X - X.mean(0)
    whiten: Callable[[float], Tensor] | None = None
    for metric in metrics:
        if not is_metric(metric):
            raise ValueError(
                "`metric` must be euclidean, standardized, cosine or ridge:WEIGHT, got "
                f"{metric!r}; try 'euclidean'"
            )
        if metric.startswith(RIDGE):
            whiten = whiten or _whitening(normalize(X, dim=1))
            rows = whiten(float(metric.removeprefix(RIDGE)))
            yield _search(rows.float(), None, k, block, progress, exact_up_to)
        else:
            rows = _place(X, metric)
            yield _search(rows, rows.square().sum(1), k, block, progress, exact_up_to)


def _search(
    X: Tensor,
    lengths: Tensor | None,
    k: int,
    block: int,
    progress: Progress,
    exact_up_to: int,
) -> Tensor:
    """Neighbours by distance, from the squared lengths of the rows; without, by |product|."""
    n = len(X)
    k = min(k, n - 1)
    if k < 1:
        return torch.empty(n, 0, dtype=torch.long, device=X.device)
    if n > exact_up_to and X.device.type == "cpu":
        if has_faiss():
            found = approximate_neighbors(X, k, absolute=lengths is None, progress=progress)
            progress(Tick("neighbours", n, n, text=found.reason()))
            return found.neighbors
        hint = "pip install 'unbend[peers]' brings faiss, which needs a fraction of the time"
        progress(Tick("neighbours", 0, n, text=f"exact neighbours of {n} samples; {hint}"))
    with use_threads(threads_for(2.0 * n * n * X.shape[1])):
        return _search_all(X, lengths, k, block, progress)


def _search_all(
    X: Tensor, lengths: Tensor | None, k: int, block: int, progress: Progress
) -> Tensor:
    """Compare every row with every other, block by block."""
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


def place(X: Tensor, metric: str) -> Tensor:
    """Rows of which the Euclidean distances are those of the metric; for ridge, the products.

    Examples
    --------
    >>> X = torch.tensor([[0.0, 8.0], [2.0, 40.0]]).double()
    >>> place(X, "standardized").square().round(decimals=6).tolist()
    [[0.5, 0.5], [0.5, 0.5]]
    """
    X = X - X.mean(0)
    if metric.startswith(RIDGE):
        X = X.double() if X.device.type != "mps" else X.float()
        return _whitening(normalize(X, dim=1))(float(metric.removeprefix(RIDGE)))
    return _place(X, metric)


def _place(X: Tensor, metric: str) -> Tensor:
    """Centred rows, so that their Euclidean distances are those of the metric."""
    if metric == "standardized":
        return standardized(X)
    return normalize(X, dim=1).float() if metric == "cosine" else X


def _whitening(X: Tensor) -> Callable[[float], Tensor]:
    """A function of the weight w to rows W with W Wᵀ = X (XᵀX + w n I)⁻¹ Xᵀ.

    Up to a factor per row, this is the matrix of the ridge codes without their diagonal, so its
    largest entries per row are the self-expressive neighbours. Nothing of size n × n is stored
    when n > p.
    """
    values, vectors = principal_directions(X)
    rows = X @ vectors
    return lambda weight: rows * (values + weight * len(X)).rsqrt()
