"""The losses of self-supervised learning as pure functions of features.

Every function takes plain tensors and returns a scalar to be minimised, in float32 or wider even
under autocast. Nothing here holds state; what is kept from step to step lives in the methods.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from unbend.functional.checks import (
    check_count,
    check_positive,
    check_tensor,
    full_precision,
    working_dtype,
)

__all__ = [
    "VICRegTerms",
    "byol_loss",
    "info_nce",
    "nt_xent",
    "sinkhorn_codes",
    "swapped_prediction",
    "vicreg_terms",
]


def nt_xent(Z: Tensor, Z_other: Tensor, temperature: float = 0.5) -> Tensor:
    """Normalised temperature-scaled cross entropy of two views, Eq. (1) of SimCLR.

    For every one of the 2n features the other view of its sample is the right answer among the
    2n - 1 other features of the batch.

    Parameters
    ----------
    Z, Z_other : Tensor of shape (n, d)
        Two views; brought to the unit sphere here.
    temperature : float, default=0.5
        τ; 0.5 is best for CIFAR-10 (Chen et al., 2020, appendix B.9).
    """
    temperature = check_positive(temperature, "temperature", "nt_xent", 0.5)
    Z, Z_other = _pair(Z, Z_other, "nt_xent")
    n = len(Z)
    both = F.normalize(torch.cat([Z, Z_other]), dim=1)
    with full_precision(both):
        logits = (both @ both.mT) / temperature
        logits = logits.masked_fill(torch.eye(2 * n, dtype=torch.bool, device=Z.device), -torch.inf)
        return F.cross_entropy(logits, torch.arange(2 * n, device=Z.device).roll(n))


def info_nce(query: Tensor, key: Tensor, queue: Tensor, temperature: float = 0.2) -> Tensor:
    """Find the key of each query among the keys of a queue, Eq. (1) of MoCo.

    Parameters
    ----------
    query, key : Tensor of shape (n, d)
        Two views; brought to the unit sphere here. No gradient reaches the keys.
    queue : Tensor of shape (m, d)
        Keys of other samples, on the unit sphere.
    temperature : float, default=0.2
        τ of MoCo v2.
    """
    temperature = check_positive(temperature, "temperature", "info_nce", 0.2)
    query, key = _pair(query, key, "info_nce")
    check_tensor(queue, "queue", "info_nce", "m, d")
    query, key = F.normalize(query, dim=1), F.normalize(key.detach(), dim=1)
    with full_precision(query):
        right = (query * key).sum(1, keepdim=True)
        wrong = query @ queue.detach().to(query).mT
        logits = torch.cat([right, wrong], 1) / temperature
        return F.cross_entropy(logits, logits.new_zeros(len(query), dtype=torch.long))


class VICRegTerms(NamedTuple):
    """The three terms before they are weighted."""

    invariance: Tensor
    variance: Tensor
    covariance: Tensor


def vicreg_terms(
    Z: Tensor, Z_other: Tensor, target: float = 1.0, floor: float = 1e-4
) -> VICRegTerms:
    """Invariance, variance and covariance of two views, Eqs. (1) to (5) of VICReg.

    Invariance is the mean squared difference (per entry, as in the authors' runs), variance the
    mean hinge max(0, γ - √(Var + ε)) over columns and both views, covariance the sum of squared
    off-diagonal covariances divided by d, summed over both views.

    Parameters
    ----------
    Z, Z_other : Tensor of shape (n, d)
        Two views, n >= 2, not normalised.
    target, floor : float
        γ = 1 and ε = 1e-4.
    """
    Z, Z_other = _pair(Z, Z_other, "vicreg_terms")
    n, d = Z.shape
    if n < 2:
        raise ValueError(f"`Z` of vicreg_terms must have 2 rows or more, got {n}; no variance")
    hinges, off_diagonals = [], []
    with full_precision(Z):
        for part in (Z, Z_other):
            centred = part - part.mean(0)
            hinges.append(F.relu(target - (part.var(0) + floor).sqrt()).mean())
            covariance = centred.mT @ centred / (n - 1)
            # All squares less those of the diagonal: no d×d mask is needed.
            squares = covariance.square().sum() - covariance.diagonal().square().sum()
            off_diagonals.append(squares / d)
        return VICRegTerms(
            F.mse_loss(Z, Z_other),
            sum(hinges[1:], hinges[0]) / 2,
            sum(off_diagonals[1:], off_diagonals[0]),
        )


def byol_loss(prediction: Tensor, target: Tensor) -> Tensor:
    """Mean of 2 - 2 cos(prediction, target), Eq. (2) of BYOL; no gradient reaches the target.

    Parameters
    ----------
    prediction, target : Tensor of shape (n, d)
        The predictor's output for one view and the momentum encoder's for the other.
    """
    prediction, target = _pair(prediction, target, "byol_loss")
    cosine = F.cosine_similarity(prediction, target.detach(), dim=1)
    return (2 - 2 * cosine).mean()


@torch.no_grad()
def sinkhorn_codes(scores: Tensor, eps: float = 0.05, n_iter: int = 3) -> Tensor:
    """Soft assignments of n features to k prototypes with equally used prototypes.

    Eqs. (3) to (5) of SwAV: starting from exp(scores/ε), columns (prototypes) are scaled to sum
    to n/k and rows (features) to sum to 1, ``n_iter`` times. Rows sum to one exactly.

    Parameters
    ----------
    scores : Tensor of shape (n, k)
        Cosines of features and prototypes.
    eps : float, default=0.05
        Weight of entropy.
    n_iter : int, default=3
        Rounds of Sinkhorn-Knopp.
    """
    check_tensor(scores, "scores", "sinkhorn_codes", "n, k")
    eps = check_positive(eps, "eps", "sinkhorn_codes", 0.05)
    n_iter = check_count(n_iter, "n_iter", "sinkhorn_codes", 3)
    # In the logarithm, where no score is too large; the constants n and k drop out of the rows.
    log_q = scores.to(working_dtype(scores)) / eps
    for _ in range(n_iter):
        log_q = log_q - log_q.logsumexp(0, keepdim=True)
        log_q = log_q - log_q.logsumexp(1, keepdim=True)
    return log_q.exp()


def swapped_prediction(
    scores: list[Tensor], n_full: int, temperature: float = 0.1, eps: float = 0.05, n_iter: int = 3
) -> Tensor:
    """Predict the codes of each full view from every other view, Eqs. (2) and (6) of SwAV.

    Parameters
    ----------
    scores : list of Tensor of shape (n, k)
        Cosines with the prototypes, the full views first, then the small crops.
    n_full : int
        How many of the views are full: only these give codes.
    temperature : float, default=0.1
        τ of the softmax over prototypes.
    eps, n_iter :
        Of :func:`sinkhorn_codes`.
    """
    temperature = check_positive(temperature, "temperature", "swapped_prediction", 0.1)
    if len(scores) < 2 or not 1 <= n_full <= len(scores):
        raise ValueError(
            f"`scores` of swapped_prediction must hold 2 views or more, got {len(scores)} of which "
            f"{n_full} are full"
        )
    with full_precision(scores[0]):
        logs = [F.log_softmax(s.to(working_dtype(s)) / temperature, dim=1) for s in scores]
        losses = []
        for a in range(n_full):
            codes = sinkhorn_codes(scores[a].detach(), eps, n_iter)
            others = [-(codes * logs[b]).sum(1).mean() for b in range(len(scores)) if b != a]
            losses.append(torch.stack(others).mean())
        return torch.stack(losses).mean()


def _pair(Z: Tensor, Z_other: Tensor, owner: str) -> tuple[Tensor, Tensor]:
    """Two views of one shape in full precision."""
    check_tensor(Z, "Z", owner, "n, d")
    if Z.shape != Z_other.shape:
        raise ValueError(
            f"both views of {owner} must have one shape, got {tuple(Z.shape)} and "
            f"{tuple(Z_other.shape)}"
        )
    dtype = working_dtype(Z, Z_other)
    return Z.to(dtype), Z_other.to(dtype)
