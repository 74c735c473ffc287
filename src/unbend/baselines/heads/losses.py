"""Terms of losses shared by several methods, one number per head.

Probabilities and their logarithms are (..., b, k); the leading dimension is that of the heads.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import normalize

__all__ = ["class_contrast", "consistency", "entropy", "marginal_entropy"]


def consistency(log_p: Tensor, log_q: Tensor) -> Tensor:
    """Mean of -log <p, q> over the pairs of a batch, from logarithms of probabilities.

    The logarithm of a sum of exponentials keeps the gradient where the product underflows.
    """
    return -(log_p + log_q).logsumexp(-1).mean(-1)


def entropy(p: Tensor) -> Tensor:
    """Entropy, in nats, over the last dimension; a probability of zero has no gradient."""
    found: Tensor = torch.special.entr(p.clamp_min(torch.finfo(p.dtype).tiny)).sum(-1)
    return found


def marginal_entropy(P: Tensor) -> Tensor:
    """Entropy, in nats, of the mean of probabilities over a batch.

    >>> marginal_entropy(torch.eye(4)).exp()
    tensor(4.)
    """
    return entropy(P.mean(-2))


def class_contrast(P: Tensor, Q: Tensor, temperature: float = 1.0) -> Tensor:
    """Cross entropy between the cosines of columns of P and Q and the identity.

    Column c of P is the profile of cluster c over the batch; its positive among the columns of Q
    is the same cluster. An empty cluster has cosine zero with all.
    """
    cosines = normalize(P, dim=-2).mT @ normalize(Q, dim=-2) / temperature
    return -cosines.log_softmax(-1).diagonal(dim1=-2, dim2=-1).mean(-1)
