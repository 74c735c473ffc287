"""NNM: SCAN with neighbours in the batch and in the whole set, and a contrast of clusters."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from unbend.baselines.heads.estimator import HeadPeer
from unbend.baselines.heads.losses import class_contrast, consistency, marginal_entropy
from unbend.baselines.heads.pairs import Pairs
from unbend.baselines.heads.session import Session
from unbend.baselines.heads.stacked import HeadSpec
from unbend.baselines.registry import peer
from unbend.samples import nearest_neighbors

__all__ = ["NNM", "matching_loss", "nnm_loss"]


def matching_loss(log_p: Tensor, log_q: Tensor) -> Tensor:
    """Consistency of pairs and contrast of clusters, both with weight one (..., m, k)."""
    return consistency(log_p, log_q) + class_contrast(log_p.exp(), log_q.exp())


def nnm_loss(
    anchor: Tensor,
    neighbor: Tensor,
    other: Tensor,
    nearest: Tensor,
    stored: Tensor | None,
    balance: float,
) -> Tensor:
    """NNM's loss from logarithms of probabilities (..., b, k).

    Local: (anchor, its mined neighbour) and (its other view, its nearest in the batch). Global:
    all four against the ``stored`` probabilities of the nearest sample of the whole set, which
    are constant. Less λ times the entropy of the mean over both views.

    The least value with c = log(1 + (k - 1)/e) is c - λ log k, or 2c - λ log k with ``stored``.
    """
    first, second = torch.cat([anchor, other], -2), torch.cat([neighbor, nearest], -2)
    loss = matching_loss(first, second) - balance * marginal_entropy(first.exp())
    if stored is not None:
        every = torch.cat([first, second], -2)
        loss = loss + matching_loss(every, torch.cat([stored.detach()] * 4, -2))
    return loss


@peer("nnm", "SCAN with neighbours in the batch and the whole set", year=2021)
@dataclass(eq=False, repr=False, kw_only=True)
class NNM(HeadPeer):
    """Dang et al., "Nearest neighbor matching for deep clustering", CVPR 2021.

    SCAN's neighbours, and two kinds more: the nearest sample of the batch, and the nearest of the
    whole set, whose probabilities are looked up in a table that each epoch renews. Clusters are
    contrasted as in GCC.

    On embeddings a sample has one view, and both kinds of neighbours are constants of the
    embedding: what is left of the idea is a fixed 1-nearest-neighbour match beside SCAN's. On
    images, with ``backbone``, the features move and the neighbours with them.

    Parameters
    ----------
    n_clusters : int, default=8
        k.
    n_heads : int, default=10
        Heads trained side by side; published: 3, and 10 for ImageNet-50.
    n_neighbors : int, default=20
        Mined neighbours, beside the sample itself.
    balance : float, default=5
        λ, weight of the entropy.
    epochs : int, default=50
        Passes over the samples; published: 100.
    batch_size : int, default=512
        It should hold all clusters many times.
    lr : float, optional
        Of Adam; 3e-3 for heads on embeddings, 1e-4 for a whole network as published.
    consensus, backbone, device, random_state, verbose :
        As in :class:`~unbend.baselines.SCAN`.

    Attributes
    ----------
    labels_, head_losses_, best_head_, history_ :
        As in :class:`~unbend.baselines.SCAN`; the loss of a head is its mean over the last epoch.

    Notes
    -----
    The original keeps the checkpoint of best accuracy on the test labels; ours takes the last
    epoch and the head of lowest loss. The released program fills the table from shuffled,
    augmented samples and reads it by the number of the sample, so that the targets belong to
    others; ours is filled in order from the samples as they are.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import make_blobs
    >>> X, y = make_blobs(60, centers=[[0, 0], [9, 0], [0, 9]], random_state=0)
    >>> sorted(np.bincount(NNM(3, random_state=0).fit(X).labels_).tolist())
    [20, 20, 20]
    """

    n_heads: int = 10
    n_neighbors: int = 20
    balance: float = 5.0
    epochs: int = 50
    batch_size: int = 512
    lr: float | None = None
    consensus: bool = False
    backbone: str | Path | None = None

    def _spec(self, n_in: int) -> HeadSpec:
        return HeadSpec(self.n_heads, n_in, self.n_clusters)

    def _learn(self, session: Session) -> Tensor:
        views, images = session.views, session.on_images
        pairs = Pairs(
            views.features(),
            self.n_neighbors,
            session.generator,
            with_self=True,
            progress=session.progress,
        )
        table = _Table(session, pairs.neighbors[:, 1])

        def compute(index: Tensor, step: int) -> Tensor:
            h = views.seen(index)
            anchor, neighbor = session.log_p(h), session.log_p(views.seen(pairs(index)))
            other = session.log_p(views.seen(index)) if images else anchor
            near = nearest_neighbors(h, 1)[:, 0]
            nearest = anchor[:, near]
            stored = table.of(index)
            return nnm_loss(anchor, neighbor, other, nearest, stored, self.balance)

        session.model.train()
        return session.descend(
            "NNM",
            compute,
            session.model.parameters(),
            lr=self.lr or (1e-4 if images else 3e-3),
            weight_decay=1e-4 if images else 0.0,
            epochs=self.epochs,
            batch_size=self.batch_size,
            before_epoch=table.renew,
        )


class _Table:
    """Logarithms of the probabilities of each sample's nearest other sample, of the last epoch."""

    def __init__(self, session: Session, nearest: Tensor) -> None:
        self.session, self.nearest = session, nearest
        self.log_p: Tensor | None = None

    def renew(self, epoch: int) -> None:
        """From the second epoch on."""
        if epoch == 0:
            return
        h = self.session.views.features()
        if self.session.on_images:
            self.nearest = nearest_neighbors(h, 1, metric="cosine")[:, 0]
        self.log_p = self.session.probabilities(h).clamp_min(1e-30).log()[:, self.nearest]

    def of(self, index: Tensor) -> Tensor | None:
        """Targets (H, b, k), or None in the first epoch."""
        return None if self.log_p is None else self.log_p[:, index.to(self.nearest.device)]
