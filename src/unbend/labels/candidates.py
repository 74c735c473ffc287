"""Several labellings of the same samples, and the one to keep.

Line 10 of Algorithm 1 is one way from codes to labels. Which way is best depends on the data, and
so does whether stage 2 helped. :class:`~unbend.labels.judge.Judge` ranks finished labellings
without true labels.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from unbend.exceptions import UnbendWarning
from unbend.labels.assign import assign
from unbend.labels.calibration import calibrate_eta
from unbend.labels.embedding import Embedding, Settings, choose_method, embed_codes
from unbend.labels.hierarchy import cut_tree
from unbend.labels.judge import Judge
from unbend.labels.label import Assigned, Cut, classify, finish, join_blocks
from unbend.labels.model import LabelModel
from unbend.labels.trees import judged_tree, merge_by_judge
from unbend.progress import Progress, silent
from unbend.samples import nearest_neighbors
from unbend.samples.graph import graph_embedding

__all__ = ["Codes", "Labelled", "States", "choose_labelling"]

_TINY = 0.02  # of the mean size: a smaller cluster is a splinter
_STARTS = 12  # of k-means
_MANY = 50  # clusters above which blocks are not counted and joined: it takes twice k eigenvectors
_GRAPH_UP_TO = 20_000  # samples whose graph of neighbours is clustered too
# Vectors are also clustered more finely and merged. The judge has then chosen twice, so the score
# must be higher by this factor: leads below one per cent were as often wrong as right.
_FINER, _LEAD = 1.5, 1.01
_MERGED = "more clusters, merged by the judge"
_FINER_SHARP = 0.75  # λ of Γ there, as in the first run of stage 2
_FINER_UP_TO = 5000  # samples; it takes as long as labelling one state
# Links of a sample in the graph of the features: five find small or thin clusters, ten hold a
# cluster together that five would cut into pieces.
_LINKS = (5, 10)


@dataclass(frozen=True)
class Codes:
    """What one state of the network gives: its name, codes C, features Z, and its η."""

    name: str
    C: Tensor
    Z: Tensor
    eta: float


class States(Protocol):
    """The codes of several states; a list of them, or what computes each when it is asked for."""

    def __len__(self) -> int: ...

    def __getitem__(self, nth: int, /) -> Codes: ...


class Labelled(NamedTuple):
    """The labelling that was kept, and whose codes it is of."""

    model: LabelModel
    source: int  # position in the sequence of codes


class _Candidate(NamedTuple):
    name: str
    source: int
    cut: Cut
    assigned: Assigned
    score: float
    smallest: int
    separate: bool  # parts of the graph


def choose_labelling(
    codes: States,
    k: int,
    *,
    samples: Tensor | None = None,
    metric: str = "euclidean",
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
        The first is the end of stage 1, the others are ends of stage 2. The others are looked up
        one at a time and not kept, so that a sequence need not hold all of them.
    k : int
        Number of clusters.
    samples : Tensor of shape (n, p), optional
        The vectors themselves, for the judge.
    metric : str
        The metric of their neighbours.
    neighbors : Tensor of shape (n, m), optional
        Neighbours of each sample, for the judge and for a labelling by spectral clustering of their
        graph; not used above 20,000 samples.
    eps_sq : float
        ε² of the coding length by which surplus blocks are joined.
    method : {"auto", "dense", "blocks", "landmarks"}
        How Γ of all samples is decomposed, see :func:`~unbend.labels.label_codes`.

    Notes
    -----
    The ways are line 10 as printed, line 10 with surplus blocks joined by coding length (after
    stage 2, up to 50 clusters), k-means of the codes, and spectral clustering of a graph: of the
    given neighbours, or without ``samples`` of the 5 and of the 10 nearest features (after stage 1,
    whose codes then carry these labels to new samples). Up to 5,000 vectors of four columns or more
    are also clustered into 1.5 k clusters after stage 1, for k up to 50, which the judge merges to
    k; this labelling must score one per cent more than the others. A labelling with a splinter, a
    cluster of one sample or of less than 2 % of the mean size, is kept only when all have one, and
    then a warning says so. Among labellings without a splinter, those whose clusters are separate
    parts of the graph of the samples come first, whatever their scores.
    """
    first = codes[0]
    n = len(first.Z)
    neighbors = neighbors if n <= _GRAPH_UP_TO else None
    judge = Judge(first.Z, samples, metric, neighbors if samples is not None else None)
    graphs = _graphs(first.Z, samples, neighbors)
    path = choose_method(method, n, k)
    # Each state sets its own η.
    common = _Common(judge, graphs, path, Settings(0.0, eps_sq, False, 1e-4, seed, None, progress))
    embedding = common.embed(first, k)
    found = [*_candidates(first, 0, k, embedding, common), *_merged(first, k, embedding, common)]
    for source in range(1, len(codes)):
        state = codes[source]
        found += _candidates(state, source, k, common.embed(state, k), common)
    ranked = sorted(found, key=_rank(n, k), reverse=True)
    best = ranked[0]
    if best.smallest < _least(n, k) and n >= 20 * k:
        warnings.warn(
            f"the smallest of {k} clusters has {best.smallest} of {n} samples in every labelling; "
            "a smaller `n_clusters` may fit the data better",
            UnbendWarning,
            stacklevel=2,
        )
    model = finish(best.cut, best.assigned, first.Z, k, path)
    model = replace(model, merge_tree=judged_tree(model, judge))
    return Labelled(replace(model, candidates=tuple(map(_row, ranked))), best.source)


def _row(candidate: _Candidate) -> dict[str, Any]:
    return {
        "labelling": candidate.name,
        "score": round(candidate.score, 5),
        "smallest_cluster": candidate.smallest,
        "separate": candidate.separate,
    }


@dataclass(frozen=True)
class _Common:
    """What all labellings of a fit share."""

    judge: Judge
    graphs: Mapping[str, Tensor]  # to be cut after stage 1
    path: str
    settings: Settings

    def embed(self, state: Codes, k: int) -> Embedding:
        """Spectral embedding of a state."""
        return embed_codes(self.path, state.C, k, replace(self.settings, eta=state.eta))

    def candidate(
        self, way: str, state: Codes, source: int, k: int, cut: Cut, lead: float = 1.0
    ) -> _Candidate:
        """A labelling and what the judge says of it; its score is divided by ``lead``."""
        assigned = classify(cut.representatives, state.C, self.settings.progress)
        labels = assigned.labels
        return _Candidate(
            f"{state.name}: {way}",
            source,
            cut,
            assigned,
            self.judge.score(labels, k) / lead,
            int(torch.bincount(labels, minlength=k).min()),
            self.judge.separates(labels, k),
        )


def _candidates(
    state: Codes, source: int, k: int, embedding: Embedding, common: _Common
) -> Iterator[_Candidate]:
    """The labellings of one state."""
    cuts = {"spectral clustering of the codes": Cut(embedding.values, *embedding.cut(k), k)}
    if source > 0 and k <= _MANY:
        settings = replace(common.settings, eta=state.eta)
        joined = join_blocks(embedding, common.path, state.C, state.Z, None, k, settings)
        if joined.n_blocks > k:
            cuts["spectral clustering of the codes, surplus blocks joined"] = joined
    by_means = _kmeans(state.C, common.judge, embedding, k, common.settings.seed)
    if by_means is not None:
        cuts["k-means of the codes"] = by_means
    for name, neighbors in common.graphs.items() if source == 0 else ():
        by_graph = _graph_cut(neighbors, embedding, k)
        if by_graph is not None:
            cuts[f"spectral clustering of {name}"] = by_graph
    for way, cut in cuts.items():
        yield common.candidate(way, state, source, k, cut)


def _merged(state: Codes, k: int, embedding: Embedding, common: _Common) -> Iterator[_Candidate]:
    """The best labelling with 1.5 k clusters, merged to k; nothing where it is not tried.

    Pieces of a long or curved group are easier to find than the group, and the judge sees from the
    samples and their links which belong together.
    """
    judge, more, n = common.judge, round(_FINER * k), len(state.C)
    if not judge.sees_samples or not 2 <= k <= _MANY or not 4 * more < n <= _FINER_UP_TO:
        return
    finer = replace(state, eta=calibrate_eta(state.C, more, _FINER_SHARP))
    found = _candidates(finer, 0, more, common.embed(finer, more), common)
    best = max(found, key=_rank(n, more))
    if best.smallest == 0:
        return
    labels = best.assigned.labels
    groups = torch.from_numpy(cut_tree(merge_by_judge(labels, more, judge), k)).to(labels.device)
    cut = Cut(embedding.values, *embedding.represent_samples(groups[labels], k), k)
    yield common.candidate(_MERGED, state, 0, k, cut, lead=_LEAD)


def _rank(n: int, k: int) -> Callable[[_Candidate], tuple[bool, bool, bool, float]]:
    """The order of labellings of n samples: no splinter, none empty, separate parts, score."""
    least = _least(n, k)
    return lambda c: (c.smallest >= least, c.smallest > 0, c.separate, c.score)


def _least(n: int, k: int) -> int:
    """The size below which a cluster is a splinter."""
    return max(2, math.ceil(_TINY * n / k))


def _graphs(Z: Tensor, samples: Tensor | None, neighbors: Tensor | None) -> dict[str, Tensor]:
    """Graphs to cut: the given neighbours; without samples, the nearest features of stage 1."""
    if neighbors is not None:
        return {"the neighbours": neighbors}
    if samples is not None or not max(_LINKS) < len(Z) <= _GRAPH_UP_TO:
        return {}
    nearest = nearest_neighbors(Z, max(_LINKS))
    return {f"the {m} nearest features": nearest[:, :m] for m in _LINKS}


def _kmeans(C: Tensor, judge: Judge, embedding: Embedding, k: int, seed: int) -> Cut | None:
    """k-means of the codes; None where the landmarks do not show all clusters.

    Of several starts the one that the judge prefers is kept, not the one of smallest inertia: local
    optima that put two groups together differ little in inertia.
    """
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning

    rows = C[judge.rows.to(C.device)].cpu().float().numpy()
    with warnings.catch_warnings():  # `classify` warns of clusters that stay empty
        warnings.simplefilter("ignore", ConvergenceWarning)
        starts = [
            KMeans(k, n_init=1, random_state=(seed + i) % 2**32).fit(rows)
            for i in range(_STARTS if k <= _MANY else 2)
        ]
    scores = [judge.score(torch.from_numpy(s.labels_).long(), k) for s in starts]
    best = starts[int(np.argmax(scores))]
    nodes = np.ascontiguousarray(embedding.nodes.cpu().float().numpy())
    labels = torch.from_numpy(best.predict(nodes).astype(np.int64)).to(C.device)
    if int((torch.bincount(labels, minlength=k) > 0).sum()) < k:
        return None
    return Cut(embedding.values, *embedding.represent(labels, k), k)


def _graph_cut(neighbors: Tensor, embedding: Embedding, k: int) -> Cut | None:
    """Spectral clustering of the neighbours; None if their graph has more than k components."""
    vectors = graph_embedding(neighbors, k)
    if vectors is None:
        return None
    labels = assign(vectors.to(embedding.vectors), k)
    return Cut(embedding.values, *embedding.represent_samples(labels, k), k)
