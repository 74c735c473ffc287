r"""Score a finished labelling without true labels.

Three shares between 0 and 1 say how well a labelling fits, each seen from another side:

- *samples*: the share of the coding rate of the vectors that the labels explain, ΔR / R with the
  paper's Eq. (1),

  .. math:: ΔR(X, Π) = R(X) - \sum_q \frac{n_q}{n} R(X_q)

  and the hard labels as Π, on their leading principal components in the metric of the neighbours.
  It is the mean of two such shares: one takes clusters for linear subspaces, the other, with every
  cluster centred on its own mean, for affine ones, as in tables. No training has touched the
  samples; only the start of k-means is chosen by this judge.
- *features*: the first of these shares on the features of stage 1.
- *graph*: the share of a cluster's links in the neighbour graph that stay inside it, averaged over
  clusters: one minus the normalised cut, divided by k.

The score is their geometric mean with weights 2 : 1 : 1. Each share alone fails on some data: the
samples where groups are curved around one centre, the features where stage 1 was fitted to wrong
neighbours, the graph where a small piece can be cut off cheaply. The pixels of images say little
about likeness, so images have two shares: the features, with a larger ε², and the graph of the ten
nearest features. Samples of three columns or fewer have no *samples* share.

Where the clusters of a labelling are separate parts of the graph of the samples, that settles it
(:meth:`Judge.separates`): two rings inside each other have no subspaces to explain, but no link
between them either.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unbend.functional import coding_rate
from unbend.labels.subspaces import cluster_rates
from unbend.samples.directions import principal_directions, varying_columns
from unbend.samples.graph import links
from unbend.samples.neighbors import nearest_neighbors, place

__all__ = ["Evidence", "Judge"]

# ε² of the rates. Larger than in training: with few samples a cluster, a small ε² rewards
# labellings that cut the features into pieces of equal size.
_EPS_SQ = 0.3
# Without samples, a small ε² also prefers to split a class into its styles and to merge two others.
_EPS_SQ_ALONE = 1.0
_NEAREST = 10  # features that are linked where no neighbours are given
_WEIGHTS = {"samples": 2, "features": 1, "graph": 1}
# Varying columns of the samples below which their rates do not count: clusters span all of so few
# directions, and compact pieces explain the most, whatever the shape of the groups.
_COLUMNS = 4
_APART = 0.999  # of the links kept inside, on average: clusters are separate parts of the graph
_PART = 0.1  # of the mean size: a smaller part may be a few outliers
_ROWS = 10_000  # a random sample that measures the rates
_LEAST = 1e-6  # a share, so that its logarithm exists


class Evidence(NamedTuple):
    """What a judge looks at: for the merge tree, which scores many mergers at a time."""

    Z: Tensor  # features at ``rows``
    X: Tensor | None  # samples at ``rows``
    links: tuple[NDArray[np.integer], NDArray[np.integer]] | None  # between samples
    eps_sq: float
    weights: dict[str, int]


class Judge:
    """Scores of labellings of the same samples.

    Parameters
    ----------
    Z : Tensor of shape (n, d)
        Features of stage 1.
    samples : Tensor of shape (n, p), optional
        The vectors themselves.
    metric : str
        Metric of their neighbours, see :func:`~unbend.samples.nearest_neighbors`.
    neighbors : Tensor of shape (n, m), optional
        Neighbours of each sample. Without them and without samples, the ten nearest features
        among the rows that are looked at.

    Examples
    --------
    >>> X = torch.eye(2).repeat_interleave(4, 0)
    >>> judge = Judge(X, X)
    >>> right, wrong = torch.arange(8) // 4, torch.arange(8) % 2
    >>> judge.score(right, 2) > judge.score(wrong, 2)
    True
    """

    def __init__(
        self,
        Z: Tensor,
        samples: Tensor | None = None,
        metric: str = "euclidean",
        neighbors: Tensor | None = None,
    ) -> None:
        order = torch.randperm(len(Z), generator=torch.Generator().manual_seed(0))
        self.n, self.rows = len(Z), order[:_ROWS].sort().values
        self._Z = Z[self.rows.to(Z.device)].cpu().float()
        self._X = None
        if samples is not None and int(varying_columns(samples).sum()) >= _COLUMNS:
            rows = samples.detach()[self.rows.to(samples.device)].cpu()
            self._X = _principal(place(rows, metric), Z.shape[1])
        self._eps_sq = _EPS_SQ_ALONE if samples is None else _EPS_SQ
        self._links: tuple[NDArray[np.integer], NDArray[np.integer]] | None = None
        self._links_rows = neighbors is None and samples is None and len(self._Z) > _NEAREST
        if self._links_rows:
            own, other = links(nearest_neighbors(self._Z, _NEAREST)).nonzero()
            self._links = self.rows.numpy()[own], self.rows.numpy()[other]
        elif neighbors is not None:
            self._links = links(neighbors).nonzero()

    @property
    def sees_samples(self) -> bool:
        """Whether the samples count, or only features and a graph."""
        return self._X is not None

    def evidence(self) -> Evidence:
        """What the shares are computed from."""
        return Evidence(self._Z, self._X, self._links, self._eps_sq, _WEIGHTS)

    def shares(self, labels: Tensor, k: int) -> dict[str, float]:
        """The shares of a labelling by name, from labels of all samples or of those at ``rows``.

        A graph of all samples needs labels of all samples.
        """
        labels = labels.cpu()
        some, everyone = labels, labels
        if len(labels) == self.n:
            some = labels[self.rows]
        else:
            everyone = labels.new_zeros(self.n)
            everyone[self.rows] = labels
        found = {}
        if self._links is not None and (len(labels) == self.n or self._links_rows):
            found["graph"] = self._kept_links(everyone.numpy(), k)
        found["features"] = _explained(self._Z, some, k, self._eps_sq)
        if self._X is not None:
            affine = _explained(self._X, some, k, _EPS_SQ, centred=True)
            found["samples"] = (_explained(self._X, some, k, _EPS_SQ) + affine) / 2
        return found

    def score(self, labels: Tensor, k: int) -> float:
        """The weighted geometric mean of the shares."""
        shares = self.shares(labels, k)
        total = sum(_WEIGHTS[name] for name in shares)
        logs = (_WEIGHTS[name] * math.log(max(share, _LEAST)) for name, share in shares.items())
        return math.exp(sum(logs) / total)

    def separates(self, labels: Tensor, k: int) -> bool:
        """Whether the clusters are separate parts of the graph of the samples, and none is tiny.

        Not of the graph of the features: there, training has drawn neighbours together.
        """
        if self._links is None or self._links_rows or len(labels) != self.n or k < 2:
            return False
        found = labels.cpu().numpy()
        smallest = int(np.bincount(found, minlength=k).min())
        return smallest >= _PART * self.n / k and self._kept_links(found, k) >= _APART

    def _kept_links(self, labels: NDArray[np.int64], k: int) -> float:
        """Mean over clusters of the share of their links that stay inside."""
        assert self._links is not None
        own, other = (labels[ends] for ends in self._links)
        whole = np.bincount(own, minlength=k)
        inside = np.bincount(own, own == other, minlength=k)
        return float((inside[whole > 0] / whole[whole > 0]).mean())


def _explained(X: Tensor, labels: Tensor, k: int, eps_sq: float, *, centred: bool = False) -> float:
    """The share of R(X) that the labels explain, ΔR / R; ``centred`` moves each cluster to 0."""
    whole = float(coding_rate(X, eps_sq))
    if whole <= 0:
        return 0.0
    if centred:
        sums = torch.zeros(k, X.shape[1]).index_add_(0, labels, X)
        X = X - (sums / torch.bincount(labels, minlength=k).clamp_min(1)[:, None])[labels]
    rates, counts = cluster_rates(X, labels, k, eps_sq)
    return 1 - float((counts / len(X) * rates).sum()) / whole


def _principal(X: Tensor, d: int) -> Tensor:
    """The d leading principal components of centred rows, of unit mean square length.

    Rows keep their lengths: in tables, lengths tell groups apart that share a direction.
    """
    X = (X - X.mean(0)).double()  # in float32 the eigenvectors of few wide rows may not converge
    vectors = principal_directions(X)[1]
    X = X @ vectors[:, -d:]
    return (X / X.square().sum(1).mean().sqrt().clamp_min(torch.finfo(X.dtype).tiny)).float()
