"""Line 10 of Algorithm 1: from codes to labels, for any number of samples."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unbend.exceptions import UnbendWarning
from unbend.knobs import JOINTS
from unbend.labels.assign import canonical
from unbend.labels.assign import join as join_by_ward
from unbend.labels.check import check_choices, check_positive, unit_rows
from unbend.labels.choose import Space, choose_n_clusters
from unbend.labels.embedding import LABEL_METHODS, Embedding, Settings, choose_method, embed_codes
from unbend.labels.hierarchy import cut_tree, merge_clusters, ward_tree
from unbend.labels.model import LabelModel
from unbend.labels.prediction import Representatives
from unbend.labels.selection import ModelSelection
from unbend.labels.subspaces import second_moments
from unbend.progress import Progress, silent

__all__ = ["Assigned", "Cut", "classify", "finish", "join_blocks", "label_codes"]

# Thresholds of _may_have_more.
_STILL_LARGE = 0.5
_SAMPLES_PER_BLOCK = 20
# With more clusters than this, blocks are merged by coding length only where they have as many
# samples as dimensions. With fewer samples the coding length is mostly the price of subspaces.
_MANY = 50


def label_codes(
    C: Tensor | NDArray[np.floating],
    Z: Tensor | NDArray[np.floating],
    n_clusters: int | str,
    *,
    eta: float,
    eps_sq: float = 0.1,
    method: str = "auto",
    seed: int = 0,
    min_clusters: int | None = None,
    max_clusters: int | None = None,
    n_landmarks: int | None = None,
    tol: float = 1e-4,
    absolute: bool = False,
    join: str = "codes",
    before: Tensor | NDArray[np.floating] | None = None,
    progress: Progress = silent,
) -> LabelModel:
    r"""Cluster samples by spectral clustering of their membership Γ = P_{Ω,η}(C Cᵀ).

    The paper's line 10, for any number of samples. Γ is doubly stochastic, so its leading
    eigenvectors are those of the normalised Laplacian I − Γ. Their rows are normalised and
    clustered by Lloyd's iteration, starting from the pivots of a QR decomposition. The last
    step is the same for fitted and new samples: each gets its most probable cluster,
    :math:`\arg\max_q \sum_{j \in q} Γ_{xj}` over the stored representatives j.

    If Γ has more blocks (eigenvalues above one half) than ``n_clusters``, the blocks are found
    and joined as ``join`` says. The paper does not do this, and neither does ``"none"``. Blocks
    are not joined with ``n_clusters="auto"``, which counts them, or with fewer than 40 samples
    per cluster.

    Parameters
    ----------
    C : Tensor or ndarray of shape (n, d)
        Codes: the cluster head's output, rows on the unit sphere.
    Z : Tensor or ndarray of shape (n, d')
        Features: the feature head's output, rows on the unit sphere. They affect the labels only if
        ``join="codes"`` merges blocks by coding length, and the merge tree only without ``before``.
    n_clusters : int or "auto"
        Number of clusters, or let :func:`~unbend.labels.choose.choose_n_clusters` decide.
    eta : float
        η of the projection, as in training.
    eps_sq : float
        ε² of the coding length.
    method : {"auto", "dense", "blocks", "landmarks"}
        ``"dense"`` stores Γ; exact, for up to about 10,000 samples. ``"blocks"`` recomputes Γ
        from C at every product; exact, memory O(n (d + k)), time O(n²). ``"landmarks"``
        clusters representatives; time and memory are linear in n. ``"auto"`` uses the first up
        to 10,000 samples and the third above, and for many clusters: from a million samples
        times clusters.
    seed : int
        Seed of everything random; no global random state is used.
    min_clusters, max_clusters : int, optional
        Smallest and largest number considered by ``"auto"``.
    n_landmarks : int, optional
        Number of landmarks for ``"landmarks"``; by default 1024 or five per cluster,
        whichever is more.
    tol : float
        Largest accepted deviation of a row sum of Γ from one.
    absolute : bool
        Use S = |C Cᵀ|: c and −c count as the same direction.
    join : {"codes", "stage1", "none"}
        ``"codes"``: a few surplus blocks are joined by Ward's rule in the space of all their
        eigenvectors. If there are 1.5 k blocks or more, 2 k clusters are found and merged by the
        coding length of their features. ``"stage1"``: 2 k clusters are found and joined by Ward's
        rule in the features of stage 1. Stage 2 makes blocks orthogonal, so their distances no
        longer tell which belong together; the features of stage 1 still do.
    before : Tensor or ndarray of shape (n, w), optional
        The features at the end of stage 1, rows on the unit sphere. The merge tree follows their
        likeness, by default that of Z; ``join="stage1"`` needs them.
    progress : callable
        Receives :class:`~unbend.progress.Tick`.

    Returns
    -------
    LabelModel

    Examples
    --------
    >>> angle = torch.tensor([0.0, 0.1, 0.2, 1.5, 1.6])
    >>> C = torch.stack([angle.cos(), angle.sin()], dim=1)
    >>> label_codes(C, C, 2, eta=0.1).labels.tolist()
    [0, 0, 0, 1, 1]
    """
    C, Z = unit_rows("C", C, "label_codes"), unit_rows("Z", Z, "label_codes")
    check_positive("eta", eta, "0.175")
    check_positive("eps_sq", eps_sq, "0.1")
    check_positive("tol", tol, "1e-4")
    check_choices(len(C), len(Z), n_clusters, method, LABEL_METHODS, max_clusters, n_landmarks)
    start = _features_before(join, before, len(C))
    settings = Settings(eta, eps_sq, absolute, tol, int(seed), n_landmarks, progress)
    selection = _select(C, min_clusters, max_clusters, settings) if n_clusters == "auto" else None
    k = int(n_clusters) if selection is None else selection.chosen
    method = choose_method(method, len(C), k)
    found = embed_codes(method, C, k, settings)
    if join == "none" or selection is not None:
        cut = Cut(found.values, *found.cut(k), k)
    else:
        near = start if join == "stage1" else None
        cut = join_blocks(found, method, C, Z, near, k, settings)
    assigned = classify(cut.representatives, C, settings.progress)
    model = finish(cut, assigned, Z if start is None else start, k, method)
    return replace(model, selection=selection)


class Cut(NamedTuple):
    """An embedding cut into k clusters: labelled representatives, the labels of all samples."""

    eigenvalues: Tensor  # not the embedding, which would keep all codes in memory
    representatives: Representatives
    labels: Tensor | None  # None where only landmarks were labelled
    n_blocks: int  # number of clusters before joining


def join_blocks(
    found: Embedding,
    method: str,
    C: Tensor,
    Z: Tensor,
    start: Tensor | None,
    k: int,
    settings: Settings,
) -> Cut:
    """Cut into k clusters; if Γ has more blocks than that, find and join them."""
    n_blocks = k
    twice = min(2 * k, len(found.vectors))  # there may be few landmarks
    if _may_have_more(k, len(C), found):
        finer = embed_codes(method, C, twice, settings)
        n_blocks = max(k, int((finer.values[:twice] > _STILL_LARGE).sum()))
        found = finer if n_blocks > k else found
    enough = k <= _MANY or len(C) >= Z.shape[1] * twice
    if k < n_blocks and (start is not None or (n_blocks >= 3 * k // 2 and enough)):
        joined = _join_surplus(found, twice, C, Z, start, k, settings.eps_sq)
        return Cut(found.values, *joined, twice)
    return Cut(found.values, *found.cut(k, n_blocks), n_blocks)


def finish(cut: Cut, assigned: Assigned, features: Tensor, k: int, method: str) -> LabelModel:
    """Build the model of a cut and of the samples assigned to its clusters.

    The merge tree follows ``features``, those of stage 1 if there are any.
    """
    if assigned.doubt is not None:
        warnings.warn(assigned.doubt, UnbendWarning, stacklevel=3)
    labels = assigned.labels
    changed = None if cut.labels is None else float((labels != cut.labels).double().mean())
    reps, labels = _renumber(assigned.representatives, labels)
    return LabelModel(
        labels=labels.cpu().numpy(),
        n_clusters=k,
        eigenvalues=cut.eigenvalues.cpu().numpy().astype(np.float64),
        method=method,
        merge_tree=ward_tree(features, labels, k),
        representatives=reps,
        reassigned=changed,
        n_blocks=cut.n_blocks,
    )


def _features_before(
    join: str, before: Tensor | NDArray[np.floating] | None, n: int
) -> Tensor | None:
    """The checked features of stage 1; ``join="stage1"`` needs them."""
    ways = [way for way in JOINTS if way != "auto"]  # see unbend.labels.candidates
    if join not in ways:
        raise ValueError(f"`join` must be one of {', '.join(ways)}, got {join!r}; try 'codes'")
    if before is None and join != "stage1":
        return None
    if before is None or len(before) != n:
        found = "None" if before is None else f"{len(before)} rows"
        raise ValueError(
            f"`before` must be the features of all {n} samples after stage 1, got {found}; pass "
            "them, or leave it out and use join='codes'"
        )
    return unit_rows("before", before, "label_codes")


def _may_have_more(k: int, n: int, found: Embedding) -> bool:
    """Whether to look for more blocks than k.

    If eigenvalue k + 1 is still large, Γ has more than k blocks. With 1.5 k blocks or more, k-means
    on k eigenvectors joins unrelated blocks. Finding 2 k clusters and joining them by features
    avoids that. With one or two surplus blocks and only the codes to compare, k-means on the
    eigenvectors of all blocks joins them better than coding length does.
    """
    more = len(found.values) > k and float(found.values[k]) > _STILL_LARGE
    return k > 1 and more and k < len(found.vectors) and n >= _SAMPLES_PER_BLOCK * 2 * k


def _join_surplus(
    found: Embedding,
    n_blocks: int,
    C: Tensor,
    Z: Tensor,
    start: Tensor | None,
    k: int,
    eps_sq: float,
) -> tuple[Representatives, Tensor | None]:
    """Find ``n_blocks`` clusters and join them into k by ``start`` or the coding length of Z.

    If Γ has fewer blocks than that, a block is split, and one piece may be no sample's most
    probable cluster. Its representatives then go to the group that the others assign them to.
    """
    reps, spectral = found.cut(n_blocks)
    blocks, _ = reps.classify(C)
    chosen = torch.bincount(blocks, minlength=n_blocks) > 0
    if int(chosen.sum()) < k:  # too few clusters have samples
        return found.cut(k)
    number = chosen.cumsum(0) - 1
    if start is not None:
        joined = join_by_ward(start.to(C.device), number[blocks], k)
    else:
        moments = second_moments(Z, number[blocks], int(chosen.sum()))
        joined = torch.from_numpy(cut_tree(merge_clusters(*moments, eps_sq), k)).to(C.device)
    groups = joined[number.clamp_min(0)]
    kept = chosen[reps.labels]
    if not bool(kept.all()):
        others = replace(
            reps, codes=reps.codes[kept], potential=reps.potential[kept], labels=reps.labels[kept]
        )
        instead, lost = others.classify(reps.codes[~kept])[0], reps.labels[~kept]
        for block in (~chosen).nonzero()[:, 0].tolist():
            groups[block] = groups[instead[lost == block]].mode().values
    merged = replace(reps, labels=groups[reps.labels], n_clusters=k)
    return merged, None if spectral is None else groups[spectral]


def _select(
    C: Tensor, min_clusters: int | None, max_clusters: int | None, s: Settings
) -> ModelSelection:
    # A heavy ridge ranks neighbours by |cᵀc'|, which is what ``absolute`` asks for.
    space = Space(C, "ridge:1000" if s.absolute else "euclidean")
    return choose_n_clusters(
        [space],
        C,
        eta=s.eta,
        eps_sq=s.eps_sq,
        absolute=s.absolute,
        tol=s.tol,
        min_clusters=min_clusters,
        max_clusters=max_clusters,
        progress=s.progress,
    )


class Assigned(NamedTuple):
    """Each sample's most probable cluster, the representatives behind it, and a doubt about it."""

    representatives: Representatives
    labels: Tensor
    doubt: str | None = None


def classify(reps: Representatives, C: Tensor, progress: Progress) -> Assigned:
    """The last step: assign each sample to its most probable cluster, leaving none empty.

    With a large η, a small cluster may be nowhere the most probable one. Its potential is then
    raised until it is the most probable at one of its own representatives. The raised potential
    is stored, so prediction uses it too.
    """
    labels, _ = reps.classify(C, progress)
    empty = (torch.bincount(labels, minlength=reps.n_clusters) == 0).nonzero()[:, 0]
    if empty.numel() == 0:
        return Assigned(reps, labels)
    reps = reps.raised(empty.tolist())
    labels, _ = reps.classify(C, progress)
    left = int((torch.bincount(labels, minlength=reps.n_clusters) == 0).sum())
    raised = (
        f"{empty.numel()} of {reps.n_clusters} clusters were outvoted everywhere by larger ones"
    )
    outcome = f"{left} stay empty" if left else "their potentials were raised"
    doubt = f"{raised}; {outcome}; fewer clusters may fit the samples better"
    return Assigned(reps, labels, doubt)


def _renumber(reps: Representatives, labels: Tensor) -> tuple[Representatives, Tensor]:
    """Number clusters by size, largest first, ties by the first sample."""
    rank = torch.from_numpy(canonical(labels.cpu().numpy(), reps.n_clusters)).to(labels.device)
    stored = replace(
        reps,
        codes=reps.codes.cpu(),
        potential=reps.potential.cpu(),
        labels=rank[reps.labels].cpu(),
    )
    return stored, rank[labels]
