"""Choose the number of clusters from eigengap, stability and coding length."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unbend.exceptions import UnbendWarning
from unbend.labels.assign import assign
from unbend.labels.selection import ModelSelection
from unbend.labels.spectral import Membership
from unbend.labels.subspaces import coding_length
from unbend.progress import Progress, Tick, silent

__all__ = ["choose_n_clusters", "decide"]

# The pilot has twenty samples per candidate, within these limits.
_PILOT_MIN, _PILOT_MAX, _PER_CANDIDATE = 1024, 4000, 20
# A number of clusters stays open if it has at least this share of the greatest strength.
_OPEN = 0.7
# Below this strength the spectrum supports no number of clusters.
_WEAK = 0.1


def choose_n_clusters(
    C: Tensor,
    Z: Tensor,
    *,
    eta: float,
    eps_sq: float,
    absolute: bool,
    tol: float,
    seed: int,
    max_clusters: int | None = None,
    progress: Progress = silent,
) -> ModelSelection:
    r"""Choose the number of clusters on a random pilot of the samples.

    For every k from 2 to ``max_clusters``:

    gap
        :math:`g_k = (λ_k - λ_{k+1}) / (λ_k - b)` with the eigenvalues of the pilot's Γ and the
        mean b of all eigenvalues after the last candidate. The diagonal of Γ lifts every
        eigenvalue to about b; g is 1 if the eigenvalue after k is no larger than that.
    stability
        :math:`s_k`, the mean adjusted Rand index between the clustering of the pilot and those
        of its two random halves, each with its own Γ.
    coding length
        :math:`\sum_q L_q` (:func:`~unbend.labels.subspaces.coding_length`) of the features,
        extrapolated to all samples, in nats per sample.

    The rule: strength is :math:`g_k s_k`. Every k with at least 0.7 of the greatest strength
    stays open, and the open k with the smallest coding length is chosen. The interval spans
    the open k. So the spectrum decides if it has one clear gap. If it has several (groups of
    groups), the coding length of the features decides between them.

    Parameters
    ----------
    C, Z : Tensor of shape (n, d)
        Codes and features.
    max_clusters : int, optional
        Largest candidate. By default the width d of the codes (at most d clusters can be
        orthogonal) or a tenth of the samples, whichever is smaller.

    Warns
    -----
    UnbendWarning
        If the choice is the largest candidate, if no gap is clear, or if two clusters are
        chosen although one would have a shorter code.
    """
    n = C.shape[0]
    upper = max_clusters or max(3, min(C.shape[1], n // 10))
    upper = min(upper, n - 2)
    pilot = _pilot(n, upper, seed).to(C.device)
    C, Z = C[pilot], Z[pilot]
    clusterings = [_Clusterings.of(C, upper, eta, absolute, tol)]
    halves = torch.arange(len(C)).chunk(2)  # the pilot is in random order
    clusterings += [_Clusterings.of(C[h.to(C.device)], upper, eta, absolute, tol) for h in halves]
    lengths, stability = [], []
    for k in range(1, upper + 1):
        labels = clusterings[0].labels(k)
        lengths.append(coding_length(Z, labels, k, eps_sq, total=n) / n)
        if k > 1:
            stability.append(_stability(labels, k, clusterings[1:], halves))
        progress(Tick("number of clusters", k, upper))
    eigenvalues = clusterings[0].values
    gap = _gaps(eigenvalues, clusterings[0].bulk)
    return decide(eigenvalues[1:-1], gap, np.array(lengths), np.array(stability))


def _pilot(n: int, upper: int, seed: int) -> Tensor:
    size = min(_PILOT_MAX, max(_PILOT_MIN, _PER_CANDIDATE * upper, upper + 2))
    return torch.randperm(n, generator=torch.Generator().manual_seed(seed + 3))[:size]


@dataclass(frozen=True)
class _Clusterings:
    """The spectrum of a set of samples, which :meth:`labels` clusters into any k."""

    values: NDArray[np.float64]
    vectors: Tensor
    bulk: float

    @classmethod
    def of(cls, C: Tensor, upper: int, eta: float, absolute: bool, tol: float) -> _Clusterings:
        membership = Membership.of_few(C, eta, absolute, tol)
        pairs = membership.spectrum(min(upper + 1, len(C)))
        values = pairs.values.cpu().numpy().astype(np.float64)
        trace = float(membership.scaling.v.square().sum())  # the kernel's diagonal is one
        bulk = (trace - values.sum()) / max(1, len(C) - len(values))
        return cls(values, pairs.vectors, bulk)

    def labels(self, k: int) -> Tensor:
        return assign(self.vectors, k)


def _gaps(values: NDArray[np.float64], bulk: float) -> NDArray[np.float64]:
    """g_k for k = 2 … from λ_1, λ_2, …"""
    above = np.maximum(values[1:-1] - bulk, np.finfo(np.float32).eps)
    gaps: NDArray[np.float64] = (values[1:-1] - values[2:]) / above
    return gaps.clip(0, 1)


def _stability(
    labels: Tensor, k: int, parts: list[_Clusterings], halves: tuple[Tensor, ...]
) -> float:
    from sklearn.metrics import adjusted_rand_score

    scores = [
        adjusted_rand_score(labels.cpu()[half].numpy(), part.labels(k).cpu().numpy())
        for part, half in zip(parts, halves, strict=True)
    ]
    return float(np.mean(scores))


def decide(
    eigenvalue: NDArray[np.float64],
    gap: NDArray[np.float64],
    length: NDArray[np.float64],
    stability: NDArray[np.float64],
) -> ModelSelection:
    """Apply the rule of :func:`choose_n_clusters` to the table.

    ``eigenvalue``, ``gap`` and ``stability`` begin at k = 2, ``length`` at k = 1.
    """
    ks = np.arange(2, gap.size + 2)
    strength = gap * stability.clip(0)
    best = float(strength.max())
    is_open = strength >= _OPEN * best
    chosen = int(ks[is_open][length[1:][is_open].argmin()])
    interval = (int(ks[is_open].min()), int(ks[is_open].max()))
    if interval[0] == interval[1]:
        reason = f"the eigengap after {chosen} is the only clear one"
    else:
        reason = f"of the {int(is_open.sum())} open numbers {chosen} has the shortest code"
    _warn(chosen, best, length, int(ks[-1]))
    return ModelSelection(
        k=ks.tolist(),
        eigenvalue=eigenvalue.tolist(),
        gap=gap.tolist(),
        coding_length=length[1:].tolist(),
        stability=stability.tolist(),
        chosen=chosen,
        interval=interval,
        reason=reason,
    )


def _warn(chosen: int, strength: float, length: NDArray[np.float64], upper: int) -> None:
    """Warn if the chosen number is doubtful."""
    doubts = []
    if chosen == upper:
        doubts.append(f"it is the largest candidate, raise `max_clusters` above {upper}")
    if strength < _WEAK:
        doubts.append(f"no eigengap is clear (strength {strength:.2f}), check `eta`")
    if chosen == 2 and length[0] <= length[1]:
        doubts.append("a single cluster would have a shorter code")
    if doubts:
        message = f"n_clusters='auto' chose {chosen}, but " + "; ".join(doubts)
        warnings.warn(message, UnbendWarning, stacklevel=3)
