"""NNM: SCAN with neighbours from the batch and the whole set, and contrast between clusters."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from unbend.baselines.heads.estimator import LinearHeads
from unbend.baselines.heads.losses import class_contrast, consistency, marginal_entropy
from unbend.baselines.heads.session import Session
from unbend.baselines.registry import peer
from unbend.samples import nearest_neighbors

__all__ = ["NNM", "matching_loss", "nnm_loss"]


def matching_loss(log_p: Tensor, log_q: Tensor) -> Tensor:
    """Sum of the consistency of pairs and the contrast between clusters (..., m, k)."""
    return consistency(log_p, log_q) + class_contrast(log_p.exp(), log_q.exp())


def nnm_loss(
    anchor: Tensor,
    neighbor: Tensor,
    other: Tensor,
    nearest: Tensor,
    stored: Tensor | None,
    balance: float,
) -> Tensor:
    """NNM's loss from log-probabilities (..., b, k).

    The local part matches each anchor with its mined neighbour, and its other view with the
    nearest sample of the batch. The global part matches all four with the ``stored``
    probabilities of the nearest sample in the whole set, which are constant. λ times the entropy
    of the mean over both views is subtracted.

    With c = log(1 + (k - 1)/e) the minimum is c - λ log k, or 2c - λ log k with ``stored``.
    """
    first, second = torch.cat([anchor, other], -2), torch.cat([neighbor, nearest], -2)
    loss = matching_loss(first, second) - balance * marginal_entropy(first.exp())
    if stored is not None:
        every = torch.cat([first, second], -2)
        loss = loss + matching_loss(every, torch.cat([stored.detach()] * 4, -2))
    return loss


@peer("nnm", "SCAN with neighbours in the batch and the whole set", year=2021)
@dataclass(eq=False, repr=False, kw_only=True)
class NNM(LinearHeads):
    """Dang et al., "Nearest neighbor matching for deep clustering", CVPR 2021.

    Uses SCAN's neighbours and two more: the nearest sample of the batch, and the nearest of the
    whole set, whose probabilities come from a table that is updated every epoch. Clusters are
    contrasted as in GCC.

    On embeddings a sample has one view and its neighbours never change, so all that is added to
    SCAN is a fixed match with the nearest neighbour. On images, with ``backbone``, features and
    neighbours change during training.

    Parameters
    ----------
    n_heads, epochs : int, default=10 and 50
        Published: 3 heads, 10 for ImageNet-50, and 100 epochs.
    n_neighbors : int, default=20
        Mined neighbours of a sample, not counting itself.
    balance : float, default=5
        λ, the weight of the entropy.
    n_clusters, batch_size, lr, consensus, backbone, device, random_state, verbose :
        As in :class:`~unbend.baselines.SCAN`.

    Attributes
    ----------
    labels_, head_losses_, best_head_, history_ :
        As in :class:`~unbend.baselines.SCAN`; the loss of a head is its mean over the last epoch.

    Notes
    -----
    The original keeps the checkpoint with the best accuracy on the test labels; this one uses the
    last epoch and the head with the lowest loss. The released program fills the table from
    shuffled, augmented samples but reads it by sample index, so samples get the targets of others;
    here it is filled in order from the original samples.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import make_blobs
    >>> X, y = make_blobs(60, centers=[[0, 0], [9, 0], [0, 9]], random_state=0)
    >>> sorted(np.bincount(NNM(3, random_state=0).fit(X).labels_).tolist())
    [20, 20, 20]
    """

    def _learn(self, session: Session) -> Tensor:
        views, images = session.views, session.on_images
        pairs = session.pairs(self.n_neighbors, with_self=True)
        table = _Table(session, pairs.neighbors[:, 1])

        def compute(index: Tensor, step: int) -> Tensor:
            h = views.seen(index)
            anchor, neighbor = session.log_p(h), session.log_p(views.seen(pairs(index)))
            other = session.log_p(views.seen(index)) if images else anchor
            near = nearest_neighbors(h, 1)[:, 0]
            nearest = anchor[:, near]
            stored = table.of(index)
            return nnm_loss(anchor, neighbor, other, nearest, stored, self.balance)

        return self._train(session, compute, table.renew)


class _Table:
    """Log-probabilities of each sample's nearest neighbour, from the previous epoch."""

    def __init__(self, session: Session, nearest: Tensor) -> None:
        self.session, self.nearest = session, nearest
        self.log_p: Tensor | None = None

    def renew(self, epoch: int) -> None:
        """Update the table; it stays empty in the first epoch."""
        if epoch == 0:
            return
        h = self.session.views.features()
        if self.session.on_images:
            self.nearest = nearest_neighbors(h, 1, metric="cosine")[:, 0]
        self.log_p = self.session.probabilities(h).clamp_min(1e-30).log()[:, self.nearest]

    def of(self, index: Tensor) -> Tensor | None:
        """Targets (H, b, k), or None in the first epoch."""
        return None if self.log_p is None else self.log_p[:, index.to(self.nearest.device)]
