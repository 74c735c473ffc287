"""Principal directions of vectors, and the fixed linear maps that networks begin with."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import normalize

from unbend.functional.spectrum import eigh
from unbend.knobs import RIDGE

__all__ = [
    "principal_basis",
    "principal_directions",
    "standardized",
    "varying_columns",
    "whitening_basis",
]

# Rows that are enough to measure a covariance, all directions of it or the leading ones.
_WHITENING_ROWS, _PRINCIPAL_ROWS = 20_000, 5_000
_SHARE = 0.99  # of the variance that the principal directions hold
_MULTIPLE = 32  # of which their number is one: the last digits of a share do not change it


def principal_directions(X: Tensor) -> tuple[Tensor, Tensor]:
    """Eigenvalues (r,), rising, and eigenvectors (p, r) of XᵀX, from the smaller Gram matrix."""
    n, p = X.shape
    values, vectors = eigh(X.T @ X if p <= n else X @ X.T)
    values = values.clamp_min(0)
    if p > n:
        kept = values > 1e-9 * values.max()
        kept[-1] = True  # one direction at least, also of equal rows
        values = values[kept]
        lengths = values.clamp_min(torch.finfo(X.dtype).tiny).sqrt()
        vectors = X.T @ vectors[:, kept] / lengths
    return values, vectors


def varying_columns(X: Tensor) -> Tensor:
    """Which columns (p,) of X (n, p) have more than one value."""
    return X.min(0).values < X.max(0).values


def principal_basis(
    X: Tensor, most: int, n_directions: int | str = "auto", *, standardize: bool = False
) -> Tensor | None:
    """The leading principal directions (p, r) of rows, or of rows with columns of unit variance.

    By default they hold 99 % of the variance, or are ``most`` if that takes more; r is a multiple
    of 32. If r is more than half of the columns, or these are not more than ``most``, the result is
    None: little time would be saved.

    Examples
    --------
    >>> X = torch.randn(500, 200) * torch.linspace(1, 0, 200) ** 16
    >>> principal_basis(X, 128).shape, principal_basis(X, 256)
    (torch.Size([200, 32]), None)
    """
    p = X[0].numel()
    if n_directions == "auto" and p <= most:
        return None
    rows = _some_rows(X, _PRINCIPAL_ROWS)
    values, vectors = principal_directions(standardized(rows) if standardize else rows)
    if n_directions != "auto":
        return vectors[:, -int(n_directions) :].flip(1)
    held = values.flip(0).cumsum(0) / values.sum().clamp_min(torch.finfo(values.dtype).tiny)
    needed = int((held < _SHARE).sum()) + 1
    r = min(-(-needed // _MULTIPLE) * _MULTIPLE, most, len(values))
    return vectors[:, -r:].flip(1) if r <= p // 2 else None


def whitening_basis(X: Tensor, metric: str) -> Tensor:
    """The linear map (p, r) of centred unit rows under which products are ridge codes.

    It gives every direction that the ridge weight does not suppress about the same variance.
    Directions with less than a thousandth of the largest variance are left out; the others are
    scaled so that the entries of the mapped rows have unit mean square.

    Examples
    --------
    >>> X = torch.randn(200, 3) * torch.tensor([10.0, 1.0, 1e-6])
    >>> rows = normalize(X - X.mean(0), dim=1).double() @ whitening_basis(X, "ridge:0.0001")
    >>> tuple(rows.shape), round(float(rows.square().mean()), 3)
    ((200, 2), 1.0)
    """
    X = normalize(_some_rows(X, _WHITENING_ROWS), dim=1)
    values, vectors = principal_directions(X)
    shares = values / (values + float(metric.removeprefix(RIDGE)) * len(X))
    kept = shares > 1e-3 * shares.max()
    basis = vectors[:, kept] * (shares[kept] / values[kept]).sqrt()
    return basis * (len(X) * basis.shape[1] / shares[kept].sum()).sqrt()


def standardized(X: Tensor) -> Tensor:
    """Centred rows with columns of unit variance; columns without variance stay as they are."""
    spread = X.std(0)
    return X / torch.where(spread > 1e-9 * spread.max(), spread, torch.ones_like(spread))


def _some_rows(X: Tensor, most: int) -> Tensor:
    """A sample of the rows, as vectors around the mean of all, in float64 on the CPU."""
    X = X.detach().flatten(1)
    some = torch.randperm(len(X), generator=torch.Generator().manual_seed(0))[:most]
    return (X[some.to(X.device)] - X.mean(0)).cpu().double()
