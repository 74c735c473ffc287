"""Confidence that means something: probabilities calibrated to the agreement of neighbours.

Γ is sharp by design, so the probabilities that it gives are near one even where the clusters mix.
How consistent the labels are can be seen without true labels: among the samples as they came, do
the nearest neighbours of a sample have its label? One temperature brings the probabilities to that.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

__all__ = ["calibrate_temperature", "cool", "count_votes", "n_voters"]

# Neighbours that vote, as a share of the mean size of a cluster. The nearest few agree with a
# sample even where clusters mix, because stage 1 has tied them to it; a third of a cluster reaches
# into others where none is wrong. Chosen on the development list, see docs/labels.md.
_VOTERS = 0.12
_COLDEST, _HOTTEST = 0.2, 30.0
_STEPS = 60


def n_voters(n: int, k: int) -> int:
    """How many neighbours vote among n samples in k clusters."""
    return max(5, round(_VOTERS * n / k))


def count_votes(neighbors: Tensor, labels: Tensor, k: int) -> Tensor:
    """Shares (m, k) of the clusters among the neighbours (m, count) of each sample.

    >>> count_votes(torch.tensor([[1, 2]]), torch.tensor([0, 1, 1]), 2).tolist()
    [[0.0, 1.0]]
    """
    share = torch.full(neighbors.shape, 1 / max(1, neighbors.shape[1]), dtype=torch.float64)
    votes = torch.zeros(len(neighbors), k, dtype=torch.float64)
    return votes.scatter_add_(1, labels[neighbors], share)


def cool(p: NDArray[np.float64], temperature: float) -> NDArray[np.float64]:
    """Probabilities p^(1/T), normalised: a larger T is less certain, the order stays.

    >>> cool(np.array([[0.9, 0.1]]), 2.0).round(2).tolist()
    [[0.75, 0.25]]
    """
    if temperature == 1.0:
        return p
    logits = np.log(np.maximum(p, np.finfo(np.float64).tiny)) / temperature
    logits -= logits.max(axis=1, keepdims=True)
    powers = np.exp(logits)
    cooled: NDArray[np.float64] = powers / powers.sum(axis=1, keepdims=True)
    return cooled


def calibrate_temperature(p: NDArray[np.float64], votes: Tensor) -> float:
    """The temperature at which probabilities predict the votes of neighbours best.

    Parameters
    ----------
    p : ndarray of shape (m, k)
        Probabilities of the clusters.
    votes : Tensor of shape (m, k)
        Shares of the clusters among the nearest other samples.

    Notes
    -----
    Best in cross-entropy, whose mean is smallest where confidence equals agreement. It is between
    0.2 and 30: below 1 where Γ is less certain than the neighbours, as after stage 1 alone.

    Examples
    --------
    >>> import torch
    >>> sure = np.array([[0.999, 0.001], [0.001, 0.999]])
    >>> T = calibrate_temperature(sure, torch.tensor([[0.8, 0.2], [0.2, 0.8]]))
    >>> cool(sure, T).round(2).tolist()
    [[0.8, 0.2], [0.2, 0.8]]
    """
    share = votes.cpu().numpy()

    def loss(temperature: float) -> float:
        q = np.maximum(cool(p, temperature), 1e-12)
        return -float((share * np.log(q)).sum(axis=1).mean())

    grid = np.exp(np.linspace(np.log(_COLDEST), np.log(_HOTTEST), _STEPS + 1))
    best = int(np.argmin([loss(t) for t in grid]))
    low, high = grid[max(0, best - 1)], grid[min(_STEPS, best + 1)]
    finer = np.append(np.linspace(low, high, 21), grid[best])
    return float(min(finer, key=loss))
