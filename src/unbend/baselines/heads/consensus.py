"""The consensus of several heads."""

from __future__ import annotations

import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor

__all__ = ["align_heads", "mix_heads"]


def align_heads(P: Tensor, reference: int) -> Tensor:
    """For each head, the column order that agrees best with the reference head.

    The Hungarian algorithm matches clusters by the joint mass Pᵣᵀ Pₕ of two heads.

    Parameters
    ----------
    P : Tensor of shape (H, n, k)
        Probabilities.
    reference : int
        A head.

    Returns
    -------
    Tensor of shape (H, k)
        ``P[h][:, order[h]]`` has the clusters of the reference.
    """
    joint = P[reference].double().mT @ P.double()
    orders = [linear_sum_assignment(j.cpu().numpy(), maximize=True)[1] for j in joint]
    return torch.stack([torch.from_numpy(order) for order in orders])


def mix_heads(P: Tensor, orders: Tensor) -> Tensor:
    """Mean of the heads' probabilities (H, n, k) after each has its columns in order (H, k)."""
    index = orders.to(P.device)[:, None, :].expand_as(P)
    return P.gather(2, index).mean(0)
