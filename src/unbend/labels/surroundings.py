"""How isolated a sample is among those of the fit, measured where no training has been.

Training pulls the samples that it sees together, so a score in the features would be lower for
them than for fresh samples of the same classes, and a threshold learned on them would be too low.
Distances between the samples themselves do not know which of them were trained on: what a fitted
sample sees of the others is what a fresh one will see.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import normalize

from unbend.labels.confidence import count_votes
from unbend.labels.kernel import row_blocks

__all__ = ["FARTHEST", "NEAREST", "Surroundings", "reference_rows", "survey", "threshold_of"]

_QUANTILES = (0.5, 0.9, 0.95, 0.99, 0.999)
_REFERENCES = 4000  # samples that are kept; the distances of the others are measured to them
# Of ln r beside its quantile .9: on thirty sets without foreign samples, quantile .99 is 1.5 to 3.2
# times as large.
_FARTHEST_USUAL, _LEAST_FAR = 3.5, 0.4
NEAREST = 10  # references that a sample is compared with
FARTHEST = 1e15  # of a placed coordinate; squares of larger ones overflow in 32 bits


def reference_rows(n: int, seed: int = 0) -> Tensor:
    """Positions of the samples that are kept: all, or a random 4,000, in rising order."""
    order = torch.randperm(n, generator=torch.Generator().manual_seed(seed))
    return order[:_REFERENCES].sort().values


def survey(samples: Tensor, metric: str) -> Surroundings:
    """Take samples of the fit as references, placed as the metric of the neighbours says.

    Parameters
    ----------
    samples : Tensor of shape (m, ...)
        Scaled samples, those of :func:`reference_rows`; images are flattened.
    metric : str
        As in :func:`unbend.samples.nearest_neighbors`. Ridge neighbours follow lines through the
        mean, so here they are the rows at the smallest angle to x or to -x.
    """
    X = samples.detach().flatten(1).cpu().double()
    mean = X.mean(0)
    kinds = {"euclidean": "distance", "standardized": "distance", "cosine": "angle"}
    kind = kinds.get(metric, "line")
    scale = torch.ones_like(mean)
    if metric == "standardized":
        spread = X.std(0, correction=0)
        scale = torch.where(spread > 1e-9 * spread.max(), 1 / spread, scale)
    empty = Surroundings(kind, mean.float(), scale.float(), X[:0].float())
    return empty.with_references(empty.place(X), torch.full((len(X),), -1))


def threshold_of(quantiles: Mapping[float, float]) -> float:
    """The score that a fresh sample of the fitted clusters exceeds once in a hundred times.

    Where the fit has many outliers itself, quantile .99 is the score of one of them. So ln r is at
    most 3.5 times its quantile .9, which they hardly move, or .4 if that is more.
    """
    usual, rare = quantiles[0.9], quantiles[0.99]
    ln_r = math.log(usual / (1 - usual)) if 0.5 < usual < 1 else 0.0
    most = max(_FARTHEST_USUAL * ln_r, _LEAST_FAR)
    return rare if usual >= 1 else min(rare, 1 / (1 + math.exp(-most)))


@dataclass(frozen=True)
class Surroundings:
    r"""References of the fit, and the isolation of samples among them.

    The score of x is :math:`r / (1 + r)` with

    .. math:: r = \frac{\bar d(x)}{\text{mean of } \bar d(x_j) \text{ over the 10 nearest } x_j}

    where :math:`\bar d` is the mean distance to the ten nearest references: how much emptier it
    is around x than around its neighbours. It is 1/2 where x lies as they do.

    Attributes
    ----------
    kind : {"distance", "angle", "line"}
        What is compared: places, directions, or directions without their sign.
    mean, scale : Tensor of shape (p,)
        A sample is placed at (x - mean) · scale, for angles on the unit sphere.
    references : Tensor of shape (m, p)
        Placed samples.
    groups : Tensor of shape (m,)
        The cluster of references that came with an update, -1 for those of the fit.
    reach : Tensor of shape (m,)
        Mean distance of each reference to the ten nearest others.
    quantiles : dict
        Of the score, for samples that the fit has not seen. Each reference of the fit is scored by
        the others, and the quantile q is the ⌈(m + 1) q⌉-th smallest score: a fresh sample
        exceeds it about that rarely.
    """

    kind: str
    mean: Tensor
    scale: Tensor
    references: Tensor
    groups: Tensor = field(default_factory=lambda: torch.empty(0, dtype=torch.long))
    reach: Tensor = field(default_factory=lambda: torch.empty(0))
    quantiles: Mapping[float, float] = field(default_factory=dict)

    def with_references(self, placed: Tensor, groups: Tensor) -> Surroundings:
        """A copy with more references; the quantiles stay those of the fit."""
        more = replace(
            self,
            references=torch.cat([self.references, placed]),
            groups=torch.cat([self.groups, groups]),
        )
        distance, index = more.nearest(more.references)
        more = replace(more, reach=distance.mean(1))
        if self.quantiles:
            return more
        scores = np.sort(more._isolation(distance, index))
        ranks = {q: min(len(scores), math.ceil((len(scores) + 1) * q)) for q in _QUANTILES}
        return replace(more, quantiles={q: float(scores[r - 1]) for q, r in ranks.items()})

    @property
    def threshold(self) -> float:
        """The score above which a sample is an outlier, see :func:`threshold_of`."""
        return threshold_of(self.quantiles)

    def place(self, samples: Tensor) -> Tensor:
        """Rows to compare."""
        X = samples.detach().flatten(1).to("cpu", torch.float32)
        X = ((X - self.mean) * self.scale).clamp(-FARTHEST, FARTHEST)
        return X if self.kind == "distance" else normalize(X, dim=1)

    def nearest(self, placed: Tensor, count: int = NEAREST) -> tuple[Tensor, Tensor]:
        """Distances to the nearest references and their positions, (n, count) each.

        One reference in the very place of a sample is taken for the sample itself and left out.
        """
        m = len(self.references)
        count = max(1, min(count, m - 1))
        distance = placed.new_empty(len(placed), min(count + 1, m))
        index = torch.empty(distance.shape, dtype=torch.long)
        lengths = self.references.double().square().sum(1)
        for rows in row_blocks(len(placed), m):
            near, index[rows] = self._squares(placed[rows], lengths).topk(
                distance.shape[1], largest=False
            )
            distance[rows] = near.clamp_min(0).sqrt().to(distance)
        if distance.shape[1] == 1:
            return distance, index
        same = distance[:, 0] <= 1e-3 * distance[:, -1] + 1e-6
        drop = same[:, None]
        return (
            torch.where(drop, distance[:, 1:], distance[:, :-1]),
            torch.where(drop, index[:, 1:], index[:, :-1]),
        )

    def score(self, samples: Tensor) -> NDArray[np.float64]:
        """How isolated samples are, in (0, 1); 1/2 is usual."""
        found = np.empty(len(samples))
        for rows in row_blocks(len(samples), max(self.references.shape)):
            found[rows] = self.score_placed(self.place(samples[rows]))
        return found

    def score_placed(self, placed: Tensor) -> NDArray[np.float64]:
        """The same for rows of :meth:`place`."""
        return self._isolation(*self.nearest(placed))

    def _isolation(self, distance: Tensor, index: Tensor) -> NDArray[np.float64]:
        """Distances to the nearest references, beside what is usual there."""
        floor = 1e-3 * float(self.reach.median()) + 1e-9
        ratio = (distance.mean(1) + floor) / (self.reach[index].mean(1) + floor)
        return (ratio / (1 + ratio)).double().numpy()

    def votes(self, samples: Tensor, labels: Tensor, k: int, count: int = NEAREST) -> Tensor:
        """Shares (n, k) of the clusters among the nearest references, whose clusters are given."""
        return count_votes(self.nearest(self.place(samples), count)[1], labels, k)

    def distances(self, placed: Tensor) -> NDArray[np.float64]:
        """Distances (n, n) between placed rows."""
        among = replace(self, references=placed)
        squares = among._squares(placed, placed.double().square().sum(1))
        found: NDArray[np.float64] = squares.clamp_min(0).sqrt().double().numpy()
        found = (found + found.T) / 2
        np.fill_diagonal(found, 0)
        return found

    def _squares(self, placed: Tensor, lengths: Tensor) -> Tensor:
        # In float32 the difference of large squares would hide a copy of a reference.
        placed, references = placed.double(), self.references.double()
        if self.kind == "line":
            return 2 - 2 * (placed @ references.T).abs()
        own = placed.square().sum(1, keepdim=True)
        return torch.addmm(lengths, placed, references.T, alpha=-2) + own

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Tensors and values that :meth:`from_state` reads."""
        names = ("mean", "scale", "references", "groups", "reach")
        tensors = {name: getattr(self, name).contiguous() for name in names}
        quantiles = {str(q): value for q, value in self.quantiles.items()}
        return tensors, {"kind": self.kind, "quantiles": quantiles}

    @classmethod
    def from_state(cls, tensors: Mapping[str, Tensor], values: Mapping[str, Any]) -> Surroundings:
        """Rebuild what :meth:`state` returned; parts that do not fit are an error."""
        if values["kind"] not in ("distance", "angle", "line"):
            raise ValueError(f"unknown kind of surroundings {values['kind']!r}")
        found = cls(
            values["kind"],
            tensors["mean"],
            tensors["scale"],
            tensors["references"],
            tensors["groups"],
            tensors["reach"],
            {float(q): float(value) for q, value in values["quantiles"].items()},
        )
        m, p = found.references.shape
        sizes = found.mean.shape, found.scale.shape, found.groups.shape, found.reach.shape
        if sizes != ((p,), (p,), (m,), (m,)):
            raise ValueError("the references of the surroundings do not fit together")
        if set(found.quantiles) != set(_QUANTILES):
            raise ValueError("the surroundings lack quantiles of the outlier score")
        return found
