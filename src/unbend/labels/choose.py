"""Choose the number of clusters from neighbour graphs, the membership and its stability."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components
from torch import Tensor

from unbend.exceptions import UnbendWarning
from unbend.functional import coding_rate
from unbend.functional.spectrum import eigvalsh
from unbend.labels.assign import assign
from unbend.labels.selection import ModelSelection
from unbend.labels.spectral import Membership
from unbend.labels.subspaces import rate_reduction_of
from unbend.progress import Progress, Tick, silent
from unbend.samples import lasting_parts, nearest_neighbors
from unbend.samples.graph import graph_embedding, graph_spectrum, links

__all__ = ["Space", "choose_n_clusters", "decide", "most_without"]

_GRAPH_ROWS = 3000  # a random sample for the graphs, the same for every seed
_GAMMA_ROWS = 700  # ... and for the membership, whose spectrum is computed for every η
_NEIGHBORS = 10
_DRAWS, _SHARE = 6, 0.7  # random parts of that sample; accidents of one graph are not in the others
_MOST = 60  # candidates without `max_clusters`
_BEYOND = 2  # times `min_clusters`, where that is more
_ETAS = np.exp(np.linspace(np.log(0.04), np.log(0.5), 10))
_SHARP = 0.9  # λ_k of Γ at the η that belongs to k
_SHORT_LIST = 6  # numbers of each ranking whose clusters are looked at
_NEAR = 0.06  # of k: so near, two numbers are about the same and support each other
_STEADY = 0.8  # clusters whose halves agree to this count as steady
_CLEAR = 0.9  # ... and to this, as clear ones
# Samples of a cluster in each half, on average. With fewer, halves agree whatever the data are,
# because most samples are alone in both; such a number counts half.
_FEWEST, _UNTOLD = 2, 0.5
_PARTS = 0.8  # a gap this large in the graph of one space means separate parts
_FIRM = 1.5  # factor on the strength of k when the samples fall into k parts
_OPEN = 0.5  # of the greatest strength: such a number is a candidate
_LEVEL = 2  # times more or fewer clusters than chosen: another level, not in the interval
_AS_STRONG = 0.9  # ... unless its strength is this share of the greatest: then the level is open
_DOUBT = 2 * _NEAR  # of the choice: the interval reaches this far, unless the parts are separate
_WEAK = 0.08  # below this strength nothing speaks for any number
_CHAINED = 0.7  # of a cluster's outward links go to two others: a piece of a curve
_MANY = 16  # clusters; with fewer, two others get most of the links in any case
_PART = 0.2  # of a cluster: where two clusters have more of it than this, it is split


class Space(NamedTuple):
    """Rows in which neighbours are looked up, and the metric."""

    rows: Tensor
    metric: str = "euclidean"

    def at(self, some: Tensor) -> Tensor:
        """Some of the rows, flattened, on the CPU."""
        return self.rows.detach().flatten(1)[some.to(self.rows.device)].cpu()


def most_without(min_clusters: int | None) -> int:
    """The largest number that a given smallest one asks for, where no largest one is given."""
    return _BEYOND * (min_clusters or 0)


def choose_n_clusters(
    spaces: Sequence[Space],
    C: Tensor,
    *,
    eta: float | None = None,
    absolute: bool = False,
    eps_sq: float = 0.1,
    tol: float = 1e-3,
    min_clusters: int | None = None,
    max_clusters: int | None = None,
    more: bool = True,
    progress: Progress = silent,
) -> ModelSelection:
    r"""Choose the number of clusters on a sample of the rows.

    For every k from ``min_clusters`` to ``max_clusters``:

    gap
        :math:`(λ_k - λ_{k+1}) / (1 - λ_{k+1})` with the eigenvalues of the normalised 10-neighbour
        graph: the share of the links that a cut into one more part would break and a cut into k
        does not. It is 1 for k separate parts. It is the mean over the spaces and over six random
        parts of the rows: a gap of one graph may be an accident, above all for large k.
    η
        at which the k-th eigenvalue of Γ is 0.9. η and k belong together: at one η for all k,
        Γ would have as many blocks as that η likes.
    drop
        of the next eigenvalue of that Γ, as a share.

    The evidence for k is (gap + drop) · ln k, because labels that say more count more: two halves
    of a set of twelve groups are as clear as the twelve. The strength of k is the same with gap
    and drop averaged over numbers nearby, with weights of a normal distribution whose deviation is
    6 % of k: whether the evidence falls on 29, 30 or 31 is often chance. The six k of greatest
    evidence and of greatest strength are clustered, on the sample and on its halves. Both values
    are multiplied by the share of the coding rate that the clusters explain, ΔR / R, and, where the
    halves agree to less than 0.8 (adjusted Rand index), by that agreement over 0.8.

    Where the graph of all rows in one space falls into k separate parts (a gap of at least 0.8),
    that gap counts as it is: the other space, or numbers nearby, do not take it back, nor do the
    random parts of the rows, in which a small group has fewer members than neighbours. Where the
    first space, that of the samples, falls into k parts, the strength of k is multiplied by 1.5:
    finer gaps are common in small groups. If these parts are the same however far neighbours reach
    (:func:`~unbend.samples.lasting_parts`), k is stronger than all numbers whose halves agree to
    less than 0.9.

    The strongest k is chosen. Those with at least half of the greatest evidence are candidates; the
    interval spans those of them between half and twice the choice, because others are another
    level of detail, and those that are nine tenths as strong as the choice, because then the level
    is open. It reaches at least 12 % to both sides, because numbers so near are about the same;
    only for separate parts it does not have to.

    To cut a long curve in two costs as little as to cut it from another, so its pieces look like
    clusters. Where 16 or more are chosen and the typical one has 70 % of its outward links in the
    graph of the samples to only two others, they are such pieces, and the interval goes down to
    the number of chains that they form.

    Parameters
    ----------
    spaces : sequence of Space
        The samples with the metric of their neighbours, and the features of stage 1.
    C : Tensor of shape (n, d)
        Codes on the unit sphere; before stage 2 they are the features.
    eta : float, optional
        Use this η for all k.
    min_clusters, max_clusters : int, optional
        Bounds; by default 2, and 60 or a tenth of the samples, whichever is smaller, but at least 3
        and twice ``min_clusters``.

    more : bool
        Whether a larger ``max_clusters`` can be asked for, for the advice in a warning.

    Warns
    -----
    UnbendWarning
        If the choice is the largest candidate, or if nothing speaks for any number.
    """
    n = len(C)
    most = max(3, min(_MOST, n // 10), most_without(min_clusters))
    upper = min(max_clusters or most, n - 2)
    lower = min(max(2, min_clusters or 2), upper)
    order = torch.randperm(n, generator=torch.Generator().manual_seed(0))
    pilot = order[: max(_GRAPH_ROWS, 12 * upper)].sort().values
    gaps, whole = [], []
    lasting = 0
    for done, space in enumerate(spaces):
        rows = space.at(pilot)
        graph = nearest_neighbors(rows, _NEIGHBORS, metric=space.metric)
        lasting = lasting if done else lasting_parts(rows, graph, space.metric)
        whole.append(_gaps_of(graph, upper))
        gaps.append(_graph_gaps(rows, space.metric, upper))
        progress(Tick("number of clusters", done + 1, len(spaces) + 2))
    few = C[order[: max(_GAMMA_ROWS, 6 * upper)].to(C.device)].cpu().float()
    spectra = _Spectra.of(few, upper, [eta] if eta else _ETAS.tolist(), absolute, tol)
    progress(Tick("number of clusters", len(spaces) + 1, len(spaces) + 2))
    if lower <= lasting <= upper:
        whole[0][lasting - 2] = 1.0
    table = _Table(
        k=np.arange(lower, upper + 1),
        gaps=np.array(gaps)[:, lower - 2 :],
        whole=np.array(whole)[:, lower - 2 :],
        drop=spectra.drops()[lower - 2 :],
        eta=spectra.etas_of()[lower - 2 :],
        lasting=lasting,
        more=more and upper < n - 2,
    )
    looked_at = {
        k: _look(few, k, table.eta[k - lower], absolute, tol, eps_sq) for k in table.short_list()
    }
    progress(Tick("number of clusters", len(spaces) + 2, len(spaces) + 2))
    found = decide(table, looked_at)
    if found.chosen < _MANY or table.parts[found.chosen - lower]:
        return found
    return _with_chains(found, _n_chains(spaces[0].at(pilot), spaces[0].metric, found.chosen))


def _gaps_of(graph: Tensor, upper: int) -> NDArray[np.float64]:
    """Relative gaps after k = 2 … upper of a neighbour graph."""
    values = graph_spectrum(graph, upper + 1)
    gaps: NDArray[np.float64] = (values[1:-1] - values[2:]) / (1 - values[2:] + 1e-3)
    return gaps.clip(0, 1)


def _graph_gaps(rows: Tensor, metric: str, upper: int) -> NDArray[np.float64]:
    """The mean of these gaps over random parts of the rows."""
    size = min(len(rows), max(int(_SHARE * len(rows)), 4 * upper))
    generator, gaps = torch.Generator().manual_seed(1), []
    for _ in range(_DRAWS):
        part = rows[torch.randperm(len(rows), generator=generator)[:size].sort().values]
        gaps.append(_gaps_of(nearest_neighbors(part, _NEIGHBORS, metric=metric), upper))
    mean: NDArray[np.float64] = np.mean(gaps, axis=0)
    return mean


@dataclass(frozen=True)
class _Spectra:
    """Leading eigenvalues of Γ for several η, one row each."""

    etas: NDArray[np.float64]
    values: NDArray[np.float64]

    @classmethod
    def of(
        cls, C: Tensor, upper: int, etas: Sequence[float], absolute: bool, tol: float
    ) -> _Spectra:
        rows = []
        for eta in etas:
            Gamma = Membership.of_few(C, eta, absolute, tol).dense()
            rows.append(eigvalsh(Gamma).flip(0)[: upper + 1].double().numpy())
        return cls(np.asarray(etas, dtype=np.float64), np.stack(rows))

    def _at_sharp(self, k: int, wanted: NDArray[np.float64]) -> float:
        """``wanted``, a value for every η, where λ_k is 0.9; λ_k falls as η grows."""
        own = self.values[:, k - 1]
        order = np.argsort(own, kind="stable")
        return float(np.interp(_SHARP, own[order], wanted[order]))

    def etas_of(self) -> NDArray[np.float64]:
        """η of every k from 2."""
        ks = range(2, self.values.shape[1])
        return np.exp([self._at_sharp(k, np.log(self.etas)) for k in ks])

    def drops(self) -> NDArray[np.float64]:
        """(λ_k - λ_{k+1}) / λ_k at the η of k, for every k from 2."""
        shares = 1 - self.values[:, 1:] / np.maximum(self.values[:, :-1], 1e-9)
        found = [self._at_sharp(k, shares[:, k - 1]) for k in range(2, self.values.shape[1])]
        return np.asarray(found).clip(0, 1)


@dataclass(frozen=True)
class _Table:
    """The evidence for each k."""

    k: NDArray[np.int64]
    gaps: NDArray[np.float64]  # a row for each space: the mean over parts of the rows
    whole: NDArray[np.float64]  # the same for all rows
    drop: NDArray[np.float64]
    eta: NDArray[np.float64]
    lasting: int = 0  # parts of the samples that last, see unbend.samples.lasting_parts
    more: bool = True  # whether larger numbers can be asked for

    @property
    def gap(self) -> NDArray[np.float64]:
        """The mean over the spaces, or the gap of one space where that falls into parts."""
        found: NDArray[np.float64] = np.where(self.parts, self.whole.max(0), self.gaps.mean(0))
        return found

    @property
    def parts(self) -> NDArray[np.bool_]:
        """Whether one of the graphs falls into k separate parts."""
        found: NDArray[np.bool_] = self.whole.max(0) >= _PARTS
        return found

    def evidence(self) -> NDArray[np.float64]:
        """(gap + drop) · ln k."""
        found: NDArray[np.float64] = (self.gap + self.drop) * np.log(self.k)
        return found

    def strength(self) -> NDArray[np.float64]:
        """The evidence, with gap and drop averaged over numbers nearby, but not for parts."""
        apart = (self.k - self.k[:, None]) / (_NEAR * self.k[:, None])
        weights = np.exp(-np.square(apart) / 2)
        found: NDArray[np.float64] = weights @ (self.gaps.mean(0) + self.drop) / weights.sum(1)
        return np.where(self.parts, self.evidence(), found * np.log(self.k))

    def short_list(self) -> list[int]:
        """The k with the greatest strength or evidence, and separate parts."""
        found = {
            int(self.k[i])
            for values in (self.strength(), self.evidence())
            for i in np.argsort(-values, kind="stable")[:_SHORT_LIST]
        }
        return sorted(found | set(self.k[self.parts].tolist()))


class _Look(NamedTuple):
    """Clusters of the sample into some k: labels, stability, explained share of the rate."""

    labels: NDArray[np.int64]
    stability: float | None  # None where halves are too small to compare
    explained: float

    def weight(self) -> float:
        """What the clusters are worth: the explained share, less if they are unsteady."""
        steady = _UNTOLD if self.stability is None else min(max(self.stability, 0) / _STEADY, 1.0)
        return max(self.explained, 0.0) * steady

    def is_clear(self) -> bool:
        """Whether the halves agree very well."""
        return self.stability is not None and self.stability >= _CLEAR


def _look(C: Tensor, k: int, eta: float, absolute: bool, tol: float, eps_sq: float) -> _Look:
    """Cluster the sample and its two halves into k."""
    from sklearn.metrics import adjusted_rand_score

    def labels_of(rows: Tensor) -> NDArray[np.int64]:
        membership = Membership.of_few(rows, eta, absolute, tol)
        return assign(membership.spectrum(min(k, len(rows))).vectors, min(k, len(rows))).numpy()

    labels, half = labels_of(C), len(C) // 2
    stability = None
    if _FEWEST * k <= half:
        parts = (slice(0, half), slice(half, 2 * half))
        scores = [adjusted_rand_score(labels[part], labels_of(C[part])) for part in parts]
        stability = float(np.mean(scores))
    reduced = rate_reduction_of(C, torch.from_numpy(labels), k, eps_sq)
    explained = reduced / max(float(coding_rate(C, eps_sq)), 1e-9)
    return _Look(labels, stability, explained)


def decide(table: _Table, looked_at: dict[int, _Look]) -> ModelSelection:
    """Apply the rule of :func:`choose_n_clusters` to the table."""
    first = int(table.k[0])
    strength, evidence = (
        {k: float(values[k - first]) * look.weight() for k, look in looked_at.items()}
        for values in (table.strength(), table.evidence())
    )
    in_parts = {k for k in looked_at if table.whole[0, k - first] >= _PARTS}
    strength = {k: s * _FIRM if k in in_parts else s for k, s in strength.items()}
    if table.lasting in looked_at:
        others = [k for k in looked_at if k != table.lasting and not looked_at[k].is_clear()]
        above = [_FIRM * strength[k] for k in others]
        strength[table.lasting] = max([strength[table.lasting], *above])
    ranked = sorted(looked_at, key=lambda k: (-strength[k], k))
    chosen, best = ranked[0], strength[ranked[0]]
    is_parts = bool(table.parts[chosen - first])
    least = _OPEN * max(evidence.values())
    is_open = [k for k in ranked if k == chosen or least <= evidence[k]]
    # A number on another level that is about as strong leaves the level open.
    in_span = [k for k in is_open if _same_level(k, chosen) or strength[k] >= _AS_STRONG * best]
    rows = [_describe(k, chosen, strength[k] / max(best, 1e-9), looked_at) for k in is_open[:3]]
    if is_parts:
        what = "samples" if chosen in in_parts else "features of stage 1"
        rows[0]["text"] = f"{chosen}: clear, the {what} fall into {chosen} separate parts"
    if len(table.k) > 1:
        _warn(chosen, best, int(table.k[-1]), table.more, is_parts)
    ks = table.k.tolist()
    return ModelSelection(
        k=ks,
        gap=table.gap.tolist(),
        drop=table.drop.tolist(),
        eta=table.eta.tolist(),
        strength=[strength.get(k) for k in ks],
        stability=[looked_at[k].stability if k in looked_at else None for k in ks],
        explained=[looked_at[k].explained if k in looked_at else None for k in ks],
        chosen=chosen,
        interval=_interval(chosen, in_span, 0.0 if is_parts else _DOUBT, table.k),
        candidates=rows,
        reason=rows[0]["text"],
    )


def _same_level(k: int, chosen: int) -> bool:
    return chosen <= _LEVEL * k and k <= _LEVEL * chosen


def _interval(
    chosen: int, in_span: Sequence[int], doubt: float, ks: NDArray[np.int64]
) -> tuple[int, int]:
    """The numbers that stay open, within those that were tried."""
    reach = round(doubt * chosen)
    low, high = min(*in_span, chosen - reach), max(*in_span, chosen + reach)
    return max(low, int(ks[0])), min(high, int(ks[-1]))


def _n_chains(rows: Tensor, metric: str, k: int) -> int | None:
    """In how many chains k clusters of the graph of neighbours lie; None if they do not.

    A chain is what remains connected when each cluster keeps the two others to which it has most
    links, where they also keep it.
    """
    neighbors = nearest_neighbors(rows, _NEIGHBORS, metric=metric)
    vectors = graph_embedding(neighbors, k)
    if vectors is None:
        return None
    labels, edges = assign(vectors, k).numpy(), links(neighbors).tocoo()
    between = np.zeros((k, k))
    np.add.at(between, (labels[edges.row], labels[edges.col]), 1)
    np.fill_diagonal(between, 0)
    shares = between / between.sum(1, keepdims=True).clip(1)
    if np.median(np.sort(shares, axis=1)[:, -2:].sum(1)) < _CHAINED:
        return None
    kept = np.zeros((k, k), dtype=bool)
    np.put_along_axis(kept, np.argsort(-shares, axis=1, kind="stable")[:, :2], True, axis=1)
    return int(connected_components(kept & kept.T & (shares > 0))[0])


def _with_chains(found: ModelSelection, chains: int | None) -> ModelSelection:
    """The same choice, with what chains say about it."""
    if chains is None or chains >= found.chosen:
        return found
    low = max(found.k[0], min(found.interval[0], chains - round(_DOUBT * chains)))
    first = dict(found.candidates[0])
    first["text"] += f"; they lie in about {chains} chains, each of which may be one group"
    return replace(
        found,
        interval=(low, found.interval[1]),
        candidates=[first, *found.candidates[1:]],
        reason=first["text"],
    )


def _describe(k: int, chosen: int, strength: float, looked_at: dict[int, _Look]) -> dict[str, Any]:
    """A candidate with its sentence and the sizes of its clusters, as shares."""
    look = looked_at[k]
    sizes = np.sort(np.bincount(look.labels, minlength=k))[::-1] / len(look.labels)
    if look.stability is None:
        text = f"{k}: unsteady, too few samples to compare halves of the data"
    else:
        sure = "clear" if look.is_clear() else "fair" if look.stability >= 0.6 else "unsteady"
        text = f"{k}: {sure}, halves of the data agree to {max(look.stability, 0):.0%}"
    if k > chosen:
        split = _n_split(looked_at[chosen].labels, look.labels)
        text += f"; splits {split} of the {chosen}" if split else "; splits off small parts"
    elif k < chosen:
        joined = _n_split(look.labels, looked_at[chosen].labels)
        hold = "holds" if joined == 1 else "hold"
        several = f"{joined} of its clusters {hold} several of the {chosen}"
        text += f"; {several}" if joined else "; small clusters are joined to others"
    return {
        "k": k,
        "text": text,
        "strength": round(strength, 3),
        "sizes": [round(float(share), 4) for share in sizes],
    }


def _n_split(coarse: NDArray[np.int64], fine: NDArray[np.int64]) -> int:
    """How many clusters have a large part in each of two or more finer ones."""
    table = np.zeros((coarse.max() + 1, fine.max() + 1))
    np.add.at(table, (coarse, fine), 1)
    shares = table / table.sum(axis=1, keepdims=True).clip(1)
    return int(((shares > _PART).sum(axis=1) > 1).sum())


def _warn(chosen: int, strength: float, upper: int, more: bool, is_parts: bool) -> None:
    """Warn if the chosen number is doubtful, and say what to do."""
    doubts = []
    if chosen == upper and not is_parts:
        remedy = f"; raise `max_clusters` above {upper}" if more else ""
        doubts.append(f"it is the largest number tried{remedy}")
    if strength < _WEAK:
        doubts.append("no number stands out; if you know about how many there are, say so")
    if doubts:
        message = f"n_clusters='auto' chose {chosen}, but " + "; ".join(doubts)
        warnings.warn(message, UnbendWarning, stacklevel=3)
