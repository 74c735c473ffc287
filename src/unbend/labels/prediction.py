"""Membership of new samples from stored representatives."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from unbend.labels.kernel import row_blocks
from unbend.progress import Progress, Tick, silent

__all__ = ["Representatives"]

# Up to this many clusters, sums over their representatives are a product with one-hot labels. For
# 1,000 clusters it would take half of all time. A GPU keeps it: it would add in no fixed order.
_FEW = 256


@dataclass(frozen=True)
class Representatives:
    r"""Codes that stand for the fitted samples, each with a potential and a cluster.

    The membership of a new code c over the representatives j is

    .. math:: Γ_{cj} = \frac{\exp((c^⊤ c_j + u_j)/η)}{\sum_l \exp((c^⊤ c_l + u_l)/η)}

    which is the row of Γ that c would have. It sums to one, so the sum over the representatives
    of a cluster is the probability of that cluster.

    Attributes
    ----------
    codes : Tensor of shape (m, d)
    potential : Tensor of shape (m,)
        u_j, plus η times the logarithm of the mass if j represents many samples.
    labels : Tensor of shape (m,)
    n_clusters : int
    eta : float
    absolute : bool
        Whether similarities are |cᵀ c_j|.
    """

    codes: Tensor
    potential: Tensor
    labels: Tensor
    n_clusters: int
    eta: float
    absolute: bool

    def probabilities(self, C: Tensor) -> Iterator[tuple[slice, Tensor]]:
        """Cluster probabilities of the rows of C, block by block."""
        codes = self.codes.to(C.device, C.dtype)
        offset = self.potential.to(C.device, C.dtype) / self.eta
        labels = self.labels.to(C.device)
        few = self.n_clusters <= _FEW or C.device.type != "cpu"
        members = one_hot(labels, self.n_clusters).to(C.dtype) if few else None
        for rows in row_blocks(C.shape[0], codes.shape[0]):
            S = C[rows] @ codes.T
            if self.absolute:
                S.abs_()
            Gamma = S.div_(self.eta).add_(offset).softmax(1)
            if members is not None:
                yield rows, Gamma @ members
            else:
                yield (
                    rows,
                    Gamma.new_zeros(len(Gamma), self.n_clusters).index_add_(1, labels, Gamma),
                )

    def classify(self, C: Tensor, progress: Progress = silent) -> tuple[Tensor, Tensor]:
        """The most probable cluster of each row of C, and its probability."""
        labels = torch.empty(C.shape[0], dtype=torch.int64, device=C.device)
        confidence = C.new_empty(C.shape[0])
        for rows, p in self.probabilities(C):
            confidence[rows], labels[rows] = p.max(1)
            progress(Tick("labels", rows.stop, C.shape[0]))
        return labels, confidence

    def raised(self, clusters: list[int]) -> Representatives:
        """A copy where each given cluster is the most probable at one of its representatives."""
        potential = self.potential.clone()
        for q in clusters:
            own = self.labels == q
            current = replace(self, potential=potential)
            p = torch.cat([p for _, p in current.probabilities(self.codes[own])])
            rivals = p.clone()
            rivals[:, q] = 0
            lead = (rivals.amax(1) / p[:, q].clamp_min(torch.finfo(p.dtype).tiny)).log().min()
            potential[own] += self.eta * (lead.clamp_min(0) + 1e-3)
        return replace(self, potential=potential)
