"""The compressed rate under a point-cluster membership, shared by MCR² and NMCE."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["membership_rate"]


def membership_rate(Z: Tensor, Pi: Tensor, eps_sq: float) -> Tensor:
    r"""R_c of a point-cluster membership, the second term of the paper's Eq. (1).

    .. math:: R_c(Z, \Pi; \epsilon) = \sum_j \frac{n_j}{n} \log\det\Bigl(I +
              \frac{d}{n_j \epsilon^2} Z^\top \mathrm{Diag}(\Pi_j) Z\Bigr), \quad
              n_j = \langle \Pi_j, 1 \rangle

    Parameters
    ----------
    Z : Tensor of shape (n, d)
        Features on the unit sphere.
    Pi : Tensor of shape (n, k)
        Membership Π, rows sum to one; a column of zeros counts nothing.
    eps_sq : float
        Distortion ε² > 0.

    Notes
    -----
    Gradients flow to Z and Π by autograd through k Cholesky factors, not n as with Γ, so no
    closed form is needed.

    Examples
    --------
    >>> Pi = torch.eye(2)
    >>> round(float(membership_rate(torch.eye(2), Pi, eps_sq=1.0)), 4)  # log(1 + 2)
    1.0986
    """
    if Z.ndim != 2 or Pi.ndim != 2 or len(Z) != len(Pi):
        raise ValueError(
            "`Pi` of membership_rate must have one row for each row of Z, got shapes "
            f"{tuple(Z.shape)} and {tuple(Pi.shape)}"
        )
    n, d = Z.shape
    counts = Pi.sum(0)
    # One (k, d, n) product with (n, d); an empty column is 0/tiny = 0.
    weights = Pi / counts.clamp_min(torch.finfo(Z.dtype).tiny)
    moments = (weights.T[:, :, None] * Z).mT @ Z
    identity = torch.eye(d, dtype=Z.dtype, device=Z.device)
    factor = torch.linalg.cholesky(identity + (d / eps_sq) * moments)
    logdets = 2 * factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)
    rate: Tensor = (counts / n) @ logdets
    return rate
