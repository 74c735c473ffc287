r"""Several labellings of the same samples, and the one to keep.

Line 10 of Algorithm 1 is one way from codes to labels. Which way is best depends on the data, and
so does whether stage 2 helped. The paper's own Eq. (1), the rate reduction

.. math:: ΔR(Z, Π) = R(Z) - \sum_q \frac{n_q}{n} R(Z_q)

with the hard labels as Π, ranks finished labellings without true labels. As a share of R(Z) it is
measured on the leading principal components of vectors, which no training has touched: features
that stage 1 has fitted to wrong neighbours would otherwise judge themselves. Images have no such
components; the features of stage 1, which no candidate has changed, judge there.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from unbend.exceptions import UnbendWarning
from unbend.functional import coding_rate
from unbend.labels.assign import assign
from unbend.labels.embedding import Embedding, Settings, choose_method, embed_codes
from unbend.labels.label import Cut, classify, finish, join_blocks
from unbend.labels.model import LabelModel
from unbend.labels.subspaces import rate_reduction_of
from unbend.progress import Progress, silent
from unbend.samples.graph import graph_embedding

__all__ = ["Codes", "Labelled", "choose_labelling"]

# ε² of the score. Larger than in training: with few samples a cluster, a small ε² rewards
# labellings that cut the features into pieces of equal size.
_EPS_SQ = 0.3
# Where the features of stage 1 judge, labellings of stage 1 are fitted to their judge, k-means most
# of all: they must explain this much more to be kept.
_LEAD = 1.005
_TINY = 0.02  # of the mean size: a smaller cluster is a splinter
_SCORED_ROWS = 20_000  # a random sample that measures the rate reduction
_KMEANS_ROWS = 10_000  # a random sample that places the centres
_STARTS = 12  # of k-means
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
    neighbors: Tensor | None = None,
    eps_sq: float = 0.1,
    method: str = "auto",
    seed: int = 0,
    progress: Progress = silent,
) -> Labelled:
    """Label every state of the network in several ways and keep the best labelling.

    Parameters
    ----------
    codes : sequence of Codes
        The first is the end of stage 1; its features measure the rate reduction where there are no
        vectors. The others are the ends of stage 2.
    k : int
        Number of clusters.
    samples : Tensor of shape (n, p), optional
        The vectors themselves, which then measure the rate reduction.
    neighbors : Tensor of shape (n, m), optional
        Neighbours of each sample, for a labelling by spectral clustering of their graph.
    eps_sq : float
        ε² of the merge tree and the outlier score.
    method : {"auto", "dense", "blocks", "landmarks"}
        How Γ of all samples is decomposed, see :func:`~unbend.labels.label_codes`.

    Notes
    -----
    The ways are line 10 as printed, line 10 with surplus blocks joined by coding length (after
    stage 2, up to 50 clusters), k-means of the codes, and spectral clustering of the neighbours
    (after stage 1, whose codes then carry these labels to new samples). A labelling with a
    splinter, a cluster of one sample or of less than 2 % of the mean size, is kept only when all
    have one, and then a warning says so.
    """
    path = choose_method(method, len(codes[0].C), k)
    judge = codes[0].Z if samples is None else _principal(samples, codes[0].Z.shape[1])
    found = [
        candidate
        for source, state in enumerate(codes)
        for candidate in _candidates(
            state, source, judge, neighbors if source == 0 else None, k, path, Settings(
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
    state: Codes,
    source: int,
    judge: Tensor,
    neighbors: Tensor | None,
    k: int,
    path: str,
    settings: Settings,
) -> Iterator[_Candidate]:
    """All labellings of one state."""
    embedding = embed_codes(path, state.C, k, settings)
    cuts = {"line 10": Cut(embedding, *embedding.cut(k), k)}
    if source > 0 and k <= _MANY:
        joined = join_blocks(embedding, path, state.C, state.Z, None, k, settings)
        if joined.n_blocks > k:
            cuts["line 10, surplus blocks joined"] = joined
    by_means = _kmeans(state.C, judge, embedding, k, settings.seed)
    if by_means is not None:
        cuts["k-means of the codes"] = by_means
    by_graph = None if neighbors is None else _graph_cut(neighbors, embedding, k)
    if by_graph is not None:
        cuts["spectral clustering of the neighbours"] = by_graph
    for way, cut in cuts.items():
        labels = classify(cut.representatives, state.C, settings.progress, warn=False)[1]
        sizes = torch.bincount(labels, minlength=k)
        score = _explained(judge, labels, k)
        score = score / _LEAD if source == 0 and judge is state.Z else score
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


def _kmeans(C: Tensor, judge: Tensor, embedding: Embedding, k: int, seed: int) -> Cut | None:
    """k-means of the codes; None where the landmarks do not show all clusters.

    Of several starts the one is kept whose labels explain most, not the one of smallest inertia:
    local optima that put two groups together differ little in inertia.
    """
    from sklearn.cluster import KMeans

    chosen = _some(len(C), _KMEANS_ROWS)
    rows = C[chosen.to(C.device)].cpu().float().numpy()
    starts = [
        KMeans(k, n_init=1, random_state=(seed + i) % 2**32).fit(rows)
        for i in range(_STARTS if k <= _MANY else 2)
    ]
    judged = judge[chosen.to(judge.device)]
    scores = [_explained(judged, torch.from_numpy(s.labels_).long(), k) for s in starts]
    best = starts[int(np.argmax(scores))]
    nodes = np.ascontiguousarray(embedding.nodes.cpu().float().numpy())
    labels = torch.from_numpy(best.predict(nodes).astype(np.int64)).to(C.device)
    if int((torch.bincount(labels, minlength=k) > 0).sum()) < k:
        return None
    return Cut(embedding, *embedding.represent(labels, k), k)


def _graph_cut(neighbors: Tensor, embedding: Embedding, k: int) -> Cut | None:
    """Spectral clustering of the neighbours; None if their graph has more than k components."""
    vectors = graph_embedding(neighbors, k)
    if vectors is None:
        return None
    labels = assign(vectors.to(embedding.vectors), k)
    return Cut(embedding, *embedding.represent_samples(labels, k), k)
