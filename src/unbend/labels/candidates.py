r"""Several labellings of the same samples, and the one to keep.

Line 10 of Algorithm 1 is one way from codes to labels. Which way is best depends on the data, and
so does whether stage 2 helped. The paper's own Eq. (1), the rate reduction

.. math:: ΔR(Z, Π) = R(Z) - \sum_q \frac{n_q}{n} R(Z_q)

with the hard labels as Π, ranks finished labellings without true labels. As a share of R(Z) it is
measured on the features of stage 1, which no candidate has changed, and for vectors also on their
leading principal components, which no training has touched: features that stage 1 has fitted to
a few wrong neighbours would otherwise judge themselves.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from sklearn.cluster import KMeans
from torch import Tensor

from unbend.exceptions import UnbendWarning
from unbend.functional import coding_rate
from unbend.labels.embedding import Embedding, Settings, choose_method, embed_codes
from unbend.labels.label import Cut, classify, finish, join_blocks
from unbend.labels.model import LabelModel
from unbend.labels.subspaces import rate_reduction_of
from unbend.progress import Progress, silent

__all__ = ["Codes", "Labelled", "choose_labelling"]

# ε² of the score. Larger than in training: with few samples a cluster, a small ε² rewards
# labellings that cut the features into pieces of equal size.
_EPS_SQ = 0.3
# Labellings of stage 1 are fitted to the features that judge them, k-means most of all: they must
# explain this much more to be kept.
_LEAD = 1.005
_TINY = 0.02  # of the mean size: a smaller cluster is a splinter
_SCORED_ROWS = 20_000  # a random sample that measures the rate reduction
_KMEANS_ROWS = 20_000  # a random sample that places the centres
_MANY = 50  # clusters above which blocks are not counted and joined: it takes twice k eigenvectors


@dataclass(frozen=True)
class Codes:
    """What one state of the network gives: its name, codes C, features Z, and its η."""

    name: str
    C: Tensor
    Z: Tensor
    eta: float


class Labelled(NamedTuple):
    """The labelling that was kept, and whose codes it is of."""

    model: LabelModel
    source: int  # position in the sequence of codes


class _Candidate(NamedTuple):
    name: str
    source: int
    cut: Cut
    score: float
    smallest: int


def choose_labelling(
    codes: Sequence[Codes],
    k: int,
    *,
    samples: Tensor | None = None,
    eps_sq: float = 0.1,
    method: str = "auto",
    seed: int = 0,
    progress: Progress = silent,
) -> Labelled:
    """Label every state of the network in several ways and keep the best labelling.

    Parameters
    ----------
    codes : sequence of Codes
        The first is the end of stage 1; its features measure the rate reduction. The others are
        the ends of stage 2.
    k : int
        Number of clusters.
    samples : Tensor of shape (n, p), optional
        The vectors themselves, which then have a say.
    eps_sq : float
        ε² of the merge tree and the outlier score.
    method : {"auto", "dense", "blocks", "landmarks"}
        How Γ of all samples is decomposed, see :func:`~unbend.labels.label_codes`.

    Notes
    -----
    The ways are line 10 as printed, line 10 with surplus blocks joined by coding length (after
    stage 2, up to 50 clusters), and k-means of the codes. A labelling with a splinter, a cluster
    of one sample or of less than 2 % of the mean size, is kept only when all have one, and then
    a warning says so.
    """
    path = choose_method(method, len(codes[0].C), k)
    spaces = [codes[0].Z]
    if samples is not None:
        spaces.append(_principal(samples, codes[0].Z.shape[1]))
    found = [
        candidate
        for source, state in enumerate(codes)
        for candidate in _candidates(
            state, source, spaces, k, path, Settings(
                state.eta, eps_sq, False, 1e-4, seed, None, progress
            )
        )
    ]  # fmt: skip
    least = max(2, math.ceil(_TINY * len(codes[0].C) / k))
    ranked = sorted(found, key=lambda c: (c.smallest >= least, c.score), reverse=True)
    best = ranked[0]
    if best.smallest < least and len(codes[0].C) >= 20 * k:
        warnings.warn(
            f"the smallest of {k} clusters has {best.smallest} of {len(codes[0].C)} samples in "
            "every labelling; a smaller `n_clusters` may fit the data better",
            UnbendWarning,
            stacklevel=2,
        )
    state = codes[best.source]
    settings = Settings(state.eta, eps_sq, False, 1e-4, seed, None, progress)
    model = finish(best.cut, state.C, state.Z, k, path, settings, before=codes[0].Z)
    return Labelled(replace(model, candidates=tuple(map(_row, ranked))), best.source)


def _row(candidate: _Candidate) -> dict[str, Any]:
    return {
        "labelling": candidate.name,
        "explained": round(candidate.score, 5),
        "smallest_cluster": candidate.smallest,
    }


def _candidates(
    state: Codes, source: int, spaces: list[Tensor], k: int, path: str, settings: Settings
) -> Iterator[_Candidate]:
    """All labellings of one state."""
    embedding = embed_codes(path, state.C, k, settings)
    cuts = {"line 10": Cut(embedding, *embedding.cut(k), k)}
    if source > 0 and k <= _MANY:
        joined = join_blocks(embedding, path, state.C, state.Z, None, k, settings)
        if joined.n_blocks > k:
            cuts["line 10, surplus blocks joined"] = joined
    by_means = _kmeans(state.C, embedding, k, settings.seed)
    if by_means is not None:
        cuts["k-means of the codes"] = by_means
    for way, cut in cuts.items():
        labels = classify(cut.representatives, state.C, settings.progress, warn=False)[1]
        sizes = torch.bincount(labels, minlength=k)
        score = sum(_explained(Z, labels, k) for Z in spaces) / len(spaces)
        score = score / _LEAD if source == 0 else score
        yield _Candidate(f"{state.name}: {way}", source, cut, score, int(sizes.min()))


def _explained(Z: Tensor, labels: Tensor, k: int) -> float:
    """The share of R(Z) that the labels explain, ΔR / R."""
    chosen = _some(len(Z), _SCORED_ROWS)
    Z, labels = Z[chosen], labels[chosen.to(labels.device)].cpu()
    whole = float(coding_rate(Z, _EPS_SQ))
    return rate_reduction_of(Z, labels, k, _EPS_SQ) / whole if whole > 0 else 0.0


def _principal(samples: Tensor, d: int) -> Tensor:
    """Rows of the d leading principal components of vectors, on the unit sphere."""
    X = samples.detach().cpu().float()
    X = X - X.mean(0)
    pilot = X[_some(len(X), _SCORED_ROWS)]
    _, vectors = torch.linalg.eigh(pilot.T @ pilot)
    return torch.nn.functional.normalize(X @ vectors[:, -min(d, X.shape[1]) :], dim=1)


def _some(n: int, most: int) -> Tensor:
    """Positions of a random sample of n rows, all of them while they are few."""
    return torch.randperm(n, generator=torch.Generator().manual_seed(0))[:most].sort().values


def _kmeans(C: Tensor, embedding: Embedding, k: int, seed: int) -> Cut | None:
    """k-means of the codes; None where the landmarks do not show all clusters."""
    rows = C[_some(len(C), _KMEANS_ROWS).to(C.device)].cpu().float().numpy()
    start = KMeans(k, n_init=4 if k <= _MANY else 1, random_state=seed % 2**32).fit(rows)
    nodes = np.ascontiguousarray(embedding.nodes.cpu().float().numpy())
    labels = torch.from_numpy(start.predict(nodes).astype(np.int64)).to(C.device)
    if int((torch.bincount(labels, minlength=k) > 0).sum()) < k:
        return None
    return Cut(embedding, *embedding.represent(labels, k), k)
