"""SPICE: balanced pseudo-labels from prototypes, then training on the reliable ones."""

from __future__ import annotations

import copy
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn.functional import normalize, one_hot

from unbend.baselines.heads.estimator import HeadPeer
from unbend.baselines.heads.pairs import few_neighbors
from unbend.baselines.heads.session import HeadModel, Session
from unbend.baselines.heads.stacked import HeadSpec
from unbend.baselines.heads.views import ImageViews, Trunk, VectorViews
from unbend.baselines.registry import peer
from unbend.exceptions import UnbendWarning
from unbend.pretrain.method import Follower
from unbend.samples import nearest_neighbors

__all__ = ["SPICE", "double_softmax_loss", "fixmatch_loss", "prototype_labels", "reliable"]

_META_BATCH = 5000  # samples that share prototypes, as published
_CENTRE_SHARE = 0.5  # fraction of n/k samples that define a prototype, as published
_LABELLED, _RATIO, _EMA = 64, 7, 0.999  # of FixMatch, as published


def prototype_labels(P: Tensor, Z: Tensor) -> Tensor:
    """Balanced pseudo-labels (H, m, k), zero or one, of m samples.

    The prototype of a cluster is the mean of its m/(2k) most probable unit vectors; the m/k
    samples nearest to it get its label. All clusters have the same size; a sample may have several
    labels, or none.

    Parameters
    ----------
    P : Tensor of shape (H, m, k)
        Probabilities of each head.
    Z : Tensor of shape (m, d)
        Unit vectors.
    """
    _, m, k = P.shape
    top = P.topk(max(1, round(_CENTRE_SHARE * m / k)), dim=1).indices  # (H, c, k)
    centres = normalize(Z[top].mean(1), dim=-1)  # (H, k, d)
    near = (Z @ centres.mT).topk(max(1, m // k), dim=1).indices
    return torch.zeros_like(P).scatter_(1, near, 1.0)


def double_softmax_loss(P: Tensor, labels: Tensor) -> Tensor:
    """Cross entropy between softmax(P) and labels (H, b, k), where P already are probabilities.

    The second softmax is part of the method: the loss of a correct and certain answer is
    log(1 + (k - 1)/e) instead of zero, which smooths the labels.
    """
    total = labels.sum((-2, -1)).clamp_min(1)
    return -(labels * P.log_softmax(-1)).sum((-2, -1)) / total


def reliable(
    neighbors: Tensor,
    P: Tensor,
    agreement: float,
    threshold: float,
    generator: torch.Generator,
) -> Tensor:
    """Indices of samples with reliable labels, equally many of each cluster.

    A sample is reliable if its probability is above ``threshold`` and at least a fraction
    ``agreement`` of its neighbours, including itself, have its label. Every cluster is then
    reduced at random to the size of the smallest, so one empty cluster leaves nothing.

    Parameters
    ----------
    neighbors : Tensor of shape (n, j)
        Other samples; the sample itself is added.
    P : Tensor of shape (n, k)
        Probabilities.
    """
    confidence, labels = P.max(1)
    same = (labels[neighbors] == labels[:, None]).sum(1) + 1
    share = same / (neighbors.shape[1] + 1)
    good = (share >= agreement) & (confidence > threshold)
    members = [(good & (labels == c)).nonzero()[:, 0] for c in range(P.shape[1])]
    least = min(len(rows) for rows in members)
    cut = [rows[torch.randperm(len(rows), generator=generator)[:least]] for rows in members]
    return torch.cat(cut)


def fixmatch_loss(
    labelled: Tensor, labels: Tensor, weak: Tensor, strong: Tensor, threshold: float
) -> Tensor:
    """FixMatch from log-probabilities (H, b, k).

    The cross entropy of labelled samples, plus that of strong views with the arg max of the weak
    ones as label if its probability is above the threshold, averaged over all unlabelled samples.
    """
    supervised = -(labels * labelled).sum(-1).mean(-1)
    confidence, found = weak.detach().exp().max(-1)
    target = one_hot(found, weak.shape[-1]).to(strong)
    sure = (confidence > threshold).to(strong)
    return supervised - (sure * (target * strong).sum(-1)).mean(-1)


@peer("spice", "balanced pseudo-labels from prototypes", year=2022)
@dataclass(eq=False, repr=False, kw_only=True)
class SPICE(HeadPeer):
    """Niu et al., "SPICE: Semantic pseudo-labeling for image clustering", IEEE TIP 2022.

    Three steps follow stage 1. In SPICE-Self, the most probable samples of each cluster define a
    prototype, the samples nearest to it get its label, and heads learn these balanced labels.
    Then samples whose neighbours have the same label are selected as reliable. In SPICE-Semi, a
    classifier learns from those and, if it is confident, from all others (FixMatch).

    On images, with ``backbone``, heads learn from augmented images through the frozen backbone,
    and the last step trains a network of the same architecture from scratch, as published. On
    embeddings the first two steps are as published, with one view. The last is a *surrogate*: it
    trains a new head, and a point between the sample and a neighbour replaces the strong view.

    Parameters
    ----------
    n_clusters : int, default=8
        k. The method assumes clusters of equal size.
    n_heads : int, default=3
        Published: 10.
    hidden : int, default=256
        Width of the hidden layer; published: 512.
    epochs : int, default=10
        How often the pseudo-labels are updated; published: 100, 30 for CIFAR-10.
    passes : int, default=4
        Passes over the samples between two updates; published: 8.
    batch_size : int, default=256
        Published: 128.
    lr : float, default=1e-3
        Learning rate of Adam; published: 5e-3 on unit vectors.
    n_neighbors : int, default=100
        Neighbours that must agree for a label to be reliable; at most n/(2k).
    agreement : float, default=0.9
        Fraction of them that must agree; published: 0.99 for CIFAR-10.
    threshold : float, default=0.95
        Probability required of reliable labels and in FixMatch; published: 0.99 and 0.95.
    semi_epochs : int, default=10
        Epochs of the last step, at least 500 steps; 0 skips it (SPICE-Self). Published: 2²⁰ steps.
    consensus, backbone, device, random_state, verbose :
        As in :class:`~unbend.baselines.SCAN`.

    Attributes
    ----------
    labels_, head_losses_, best_head_, history_ :
        As in :class:`~unbend.baselines.SCAN`; after the last step there is one head.
    reliable_ : ndarray
        Indices of the samples with reliable labels.

    Notes
    -----
    For CIFAR-10 and ImageNet-Dogs the original takes the reliable labels from the head and the
    checkpoint with the best accuracy on the true labels; this one always takes the head with the
    lowest loss in the last epoch. The original's backbone is frozen but in training mode, so that
    batch normalisation drifts; here it is in evaluation mode. The last step uses Adam instead of
    SGD. If a cluster has no reliable sample, it is skipped with a warning.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import make_blobs
    >>> X, y = make_blobs(60, centers=[[0, 0], [9, 0], [0, 9]], random_state=0)
    >>> sorted(np.bincount(SPICE(3, random_state=0).fit(X).labels_).tolist())
    [20, 20, 20]
    """

    n_heads: int = 3
    hidden: int = 256
    epochs: int = 10
    passes: int = 4
    batch_size: int = 256
    lr: float = 1e-3
    n_neighbors: int = 100
    agreement: float = 0.9
    threshold: float = 0.95
    semi_epochs: int = 10
    consensus: bool = False
    backbone: str | Path | None = None

    _saved: ClassVar[tuple[str, ...]] = ("reliable_",)

    def _spec(self, n_in: int) -> HeadSpec:
        return HeadSpec(self.n_heads, n_in, self.n_clusters, (self.hidden,))

    def _learn(self, session: Session) -> Tensor:
        Z = normalize(session.views.features(), dim=1)
        losses = self._self_train(session, Z)
        P = session.probabilities()[int(losses.argmin())]
        count = few_neighbors(self.n_neighbors, len(Z), self.n_clusters)
        neighbors = nearest_neighbors(Z, count, metric="cosine")
        chosen = reliable(neighbors, P, self.agreement, self.threshold, session.generator)
        self.reliable_ = chosen.cpu().numpy()
        if not self.semi_epochs:
            return losses
        if not len(chosen):
            warnings.warn(
                "skipped the last step of SPICE: a cluster has no reliable sample; use a smaller "
                "`agreement` or `threshold`",
                UnbendWarning,
                stacklevel=4,
            )
            return losses
        return self._semi_train(session, chosen, P.argmax(1), neighbors)

    def _self_train(self, session: Session, Z: Tensor) -> Tensor:
        """SPICE-Self: train the heads on the labels of their prototypes."""
        views = session.views
        session.model.trunk.eval().requires_grad_(False)
        losses = torch.zeros(self.n_heads)
        least = max(1, session.min_steps // self.epochs)
        for _ in range(self.epochs):
            order = torch.randperm(len(Z), generator=session.generator)
            for part in torch.tensor_split(order, -(-len(Z) // _META_BATCH)):
                rows = part.to(Z.device)
                with torch.no_grad():
                    h = torch.cat([views.weak(r) for r in torch.split(rows, 1024)])
                labels = torch.zeros(self.n_heads, len(Z), self.n_clusters, device=Z.device)
                labels[:, rows] = prototype_labels(session.probabilities(h), Z[rows])

                def compute(index: Tensor, step: int, labels: Tensor = labels) -> Tensor:
                    P = session.log_p(views.seen(index)).exp()
                    return double_softmax_loss(P, labels[:, index.to(labels.device)])

                losses = session.descend(
                    "SPICE-Self",
                    compute,
                    session.model.heads.parameters(),
                    lr=self.lr,
                    epochs=self.passes,
                    batch_size=self.batch_size,
                    min_steps=least,
                    samples=part,
                )
        return losses

    def _semi_train(
        self, session: Session, chosen: Tensor, labels: Tensor, neighbors: Tensor
    ) -> Tensor:
        """SPICE-Semi: FixMatch with a new network on images, with a new head on embeddings."""
        views = _fresh_views(session)
        spec = HeadSpec(1, views.trunk.out_features, self.n_clusters, (self.hidden,))
        session.model = HeadModel(views.trunk, session.new_heads(spec))
        session.views = views
        if isinstance(views, VectorViews):
            views.neighbors = neighbors
        average = Follower(session.model)
        target = one_hot(labels, self.n_clusters).float()
        chosen = chosen.to(views.samples.device)

        def compute(index: Tensor, step: int) -> Tensor:
            pick = torch.randint(len(chosen), (_LABELLED,), generator=session.generator)
            known = chosen[pick.to(chosen.device)]
            h = torch.cat([views.weak(known), views.weak(index), views.strong(index)])
            parts = torch.split(session.log_p(h), [_LABELLED, len(index), len(index)], 1)
            return fixmatch_loss(parts[0], target[known], parts[1], parts[2], self.threshold)

        def after_step(step: int) -> None:
            # With a constant momentum, a short run would stay near its random start.
            average.follow(min(_EMA, (step + 1) / (step + 10)), session.model)

        session.model.train()
        losses = session.descend(
            "SPICE-Semi",
            compute,
            session.model.parameters(),
            lr=self.lr,
            epochs=self.semi_epochs,
            batch_size=_LABELLED * _RATIO,
            after_step=after_step,
        )
        _take_average(session.model, average)
        return losses


def _fresh_views(session: Session) -> Any:
    """The same samples with an untrained trunk; embeddings keep theirs."""
    views, config = session.views, session.model.trunk.config
    if not isinstance(views, ImageViews) or config is None:
        return views
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(session.generator.initial_seed())
        trunk = Trunk(tuple(views.samples.shape[1:]), config)
    trunk.mean, trunk.std = session.model.trunk.mean, session.model.trunk.std
    return ImageViews(trunk.to(views.samples.device), views.samples, session.generator)


@torch.no_grad()
def _take_average(model: HeadModel, average: Follower) -> None:
    """Load the weights of the moving average; keep the model's batch statistics."""
    followed = copy.deepcopy(average.chain[0])
    for own, theirs in zip(model.parameters(), followed.parameters(), strict=True):
        own.copy_(theirs)
