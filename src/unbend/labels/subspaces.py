"""Clusters in feature space: second moments, coding rates and lengths, residuals."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from unbend.functional import coding_rate
from unbend.labels.kernel import row_blocks

__all__ = [
    "cluster_rates",
    "coding_length",
    "coding_lengths",
    "coding_rates",
    "rate_reduction_of",
    "second_moments",
    "subspace_residuals",
]

_ENTRIES = 2**24  # of the second moments that are held at a time; all k·d² may be gigabytes
# Up to this width, a batch of second moments is faster than one cluster after the other.
_NARROW = 128


def second_moments(Z: Tensor, labels: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Z_qᵀ Z_q of shape (k, d, d) and m_q of shape (k,) for every cluster q, float64 on the CPU."""
    d = Z.shape[1]
    moments = torch.zeros(k, d, d, dtype=torch.float64)
    counts = torch.bincount(labels, minlength=k).cpu().double()
    order, start = labels.argsort(stable=True), 0
    for q, count in enumerate(counts.long().tolist()):
        members = order[start : start + count]
        for rows in row_blocks(count, d):
            Z_q = Z[members[rows]]
            moments[q] += (Z_q.T @ Z_q).cpu().double()
        start += count
    return moments, counts


def _by_cluster(Z: Tensor, labels: Tensor, k: int) -> tuple[Tensor, ...]:
    """The rows of every cluster."""
    counts = torch.bincount(labels, minlength=k).cpu()
    return torch.tensor_split(Z[labels.argsort(stable=True)], counts.cumsum(0)[:-1])


def _regularised(moments: Tensor, counts: Tensor, eps_sq: float) -> Tensor:
    """M_q = I + d/(ε² m_q) Z_qᵀ Z_q."""
    d = moments.shape[-1]
    scale = d / (eps_sq * counts.clamp_min(1.0))
    M = scale[..., None, None] * moments
    M.diagonal(dim1=-2, dim2=-1).add_(1.0)
    return M


def coding_lengths(moments: Tensor, counts: Tensor, total: float, eps_sq: float) -> Tensor:
    r"""Coding length of every cluster, in nats.

    .. math:: L_q = \frac{m_q + d}{2} \log\det\Big(I + \frac{d}{ε^2 m_q} Z_q^⊤ Z_q\Big)
              - m_q \ln\frac{m_q}{m}

    The first term codes the samples and the subspace of the cluster, the second codes the
    cluster of each sample. Smaller is better, and :math:`\sum_q L_q` can be compared between
    different numbers of clusters.

    Parameters
    ----------
    moments : Tensor of shape (..., d, d)
        Z_qᵀ Z_q.
    counts : Tensor of shape (...)
        m_q; zero gives length zero.
    total : float
        m, the number of samples in all clusters.
    eps_sq : float
        ε².

    Examples
    --------
    >>> L = coding_lengths(torch.zeros(1, 3, 3), torch.tensor([4.0]), 8.0, 0.1)
    >>> round(float(L), 4)  # nothing to code but the label: 4 ln 2
    2.7726
    """
    half_logdet = coding_rates(moments, counts, eps_sq) / 2
    label_cost = torch.special.entr(counts) + counts * math.log(total)
    dimensions = moments.shape[-1] * (counts > 0).to(counts.dtype)  # an empty cluster is free
    length: Tensor = (counts + dimensions) * half_logdet + label_cost
    return length


def coding_length(
    Z: Tensor, labels: Tensor, k: int, eps_sq: float, total: float | None = None
) -> float:
    """Σ_q L_q of a clustering, as :func:`coding_lengths` but without second moments.

    Clusters with fewer samples than dimensions are coded through Z_q Z_qᵀ, which has the same
    determinant and is smaller.

    Parameters
    ----------
    Z : Tensor of shape (n, d)
        Features.
    labels : Tensor of shape (n,)
        Clusters 0 … k − 1.
    eps_sq : float
        ε².
    total : float, optional
        Number of samples that Z represents, n by default. Every count is scaled by total / n.
    """
    # Many small float64 matrices are faster on the CPU, and some devices lack float64.
    Z, labels = Z.cpu(), labels.cpu()
    n, d = Z.shape
    ratio = 1.0 if total is None else total / n
    length = 0.0
    for Z_q in _by_cluster(Z, labels, k):
        if len(Z_q) == 0:
            continue
        m_q = len(Z_q) * ratio
        length += (m_q + d) * _half_rate(Z_q, eps_sq) - m_q * math.log(len(Z_q) / n)
    return length


def _half_rate(Z_q: Tensor, eps_sq: float) -> float:
    """R(Z_q) / 2, in nats, from the smaller of Z_qᵀ Z_q and Z_q Z_qᵀ: their determinants agree."""
    m, d = Z_q.shape
    G = Z_q @ Z_q.T if m < d else Z_q.T @ Z_q
    G = G.double().mul_(d / (eps_sq * m))
    G.diagonal().add_(1.0)
    return float(torch.linalg.cholesky(G).diagonal().log().sum())


def rate_reduction_of(Z: Tensor, labels: Tensor, k: int, eps_sq: float) -> float:
    r"""ΔR(Z, Π) = R(Z) - Σ_q (m_q/m) R(Z_q), Eq. (1) with hard labels, in nats.

    Examples
    --------
    >>> Z = torch.eye(2).repeat_interleave(3, 0)
    >>> right = rate_reduction_of(Z, torch.tensor([0, 0, 0, 1, 1, 1]), 2, 0.1)
    >>> right > rate_reduction_of(Z, torch.tensor([0, 1, 0, 1, 0, 1]), 2, 0.1)
    True
    """
    R = coding_rate(Z.double(), eps_sq)
    rates, counts = cluster_rates(Z, labels, k, eps_sq)
    return float(R - (counts / counts.sum() * rates).sum())


def cluster_rates(Z: Tensor, labels: Tensor, k: int, eps_sq: float) -> tuple[Tensor, Tensor]:
    """R(Z_q) and m_q of every cluster, shape (k,) each, never holding more than a few moments."""
    d = Z.shape[1]
    if d > _NARROW:
        parts = _by_cluster(Z.cpu(), labels.cpu(), k)
        halves = [_half_rate(Z_q, eps_sq) if len(Z_q) else 0.0 for Z_q in parts]
        counts = torch.tensor([len(Z_q) for Z_q in parts], dtype=torch.float64)
        return 2 * torch.tensor(halves, dtype=torch.float64), counts
    step = max(1, _ENTRIES // d**2)
    found = []
    for first in range(0, k, step):
        last = min(k, first + step)
        own = (labels >= first) & (labels < last)
        moments, counts = second_moments(Z[own], labels[own] - first, last - first)
        found.append((coding_rates(moments, counts, eps_sq), counts))
    rates, sizes = (torch.cat(part) for part in zip(*found, strict=True))
    return rates, sizes


def coding_rates(moments: Tensor, counts: Tensor, eps_sq: float) -> Tensor:
    """R(Z_q) of every cluster, in nats, from Z_qᵀ Z_q (..., d, d) and m_q (...)."""
    factor = torch.linalg.cholesky(_regularised(moments, counts, eps_sq))
    rates: Tensor = 2 * factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)
    return rates


def subspace_residuals(Z: Tensor, fitted: Tensor, labels: Tensor, k: int, eps_sq: float) -> Tensor:
    r"""How far each row of Z is from every subspace of the fitted rows, in (0, 1].

    .. math:: s(z) = \min_q z^⊤ M_q^{-1} z, \quad M_q = I + \frac{d}{ε^2 m_q} Z_q^⊤ Z_q

    Up to a constant factor, z^⊤ M_q^{-1} z is the derivative of the coding rate of cluster q
    with respect to the membership of z: the cost of coding z with that cluster. For unit z
    it is the squared length of z after shrinking each principal direction with variance σ²
    by 1/(1 + d σ²/ε²): 1 outside the subspace, near 0 inside. No rank has to be chosen.
    """
    d = Z.shape[1]
    scores = torch.ones(len(Z), dtype=Z.dtype, device=Z.device)
    for Z_q in _by_cluster(fitted, labels, k):
        if len(Z_q) == 0:
            continue
        count = torch.tensor(float(len(Z_q)), dtype=torch.float64)
        L = torch.linalg.cholesky(_regularised((Z_q.T @ Z_q).cpu().double(), count, eps_sq))
        eye = torch.eye(d, dtype=L.dtype)
        W = torch.linalg.solve_triangular(L, eye, upper=False).to(Z)  # zᵀ M⁻¹ z = ‖W z‖²
        for rows in row_blocks(len(Z), d):
            cost = (Z[rows] @ W.T).square().sum(1)
            scores[rows] = torch.minimum(scores[rows], cost)
    return scores
