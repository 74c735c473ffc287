"""SCAN: a sample and its neighbours belong to the same cluster."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from unbend.baselines.heads.estimator import HeadPeer
from unbend.baselines.heads.losses import consistency, marginal_entropy
from unbend.baselines.heads.pairs import Pairs
from unbend.baselines.heads.self_labels import learn_from_self
from unbend.baselines.heads.session import Session
from unbend.baselines.heads.stacked import HeadSpec
from unbend.baselines.registry import peer

__all__ = ["SCAN", "scan_loss"]

_CHOOSING_NEIGHBORS = 5  # neighbours in the loss that selects a head, as published


def scan_loss(log_p: Tensor, log_q: Tensor, balance: float) -> Tensor:
    """-mean log <p(x), p(y)> - λ H(mean p(x)) for anchors and their neighbours (..., b, k).

    Eq. (2) of SCAN; the entropy is that of the anchors alone. The minimum is -λ log k.
    """
    return consistency(log_p, log_q) - balance * marginal_entropy(log_p.exp())


@peer("scan", "a sample and its neighbours in one cluster", year=2020)
@dataclass(eq=False, repr=False, kw_only=True)
class SCAN(HeadPeer):
    r"""Van Gansbeke et al., "SCAN: Learning to classify images without labels", ECCV 2020.

    A head learns to assign a sample and one of its nearest neighbours to the same cluster with
    confidence, and to use all clusters:

    .. math:: -\tfrac1b \sum_x \log \langle p(x), p(y)\rangle
              - λ\, H\bigl(\tfrac1b \sum_x p(x)\bigr)

    On embeddings this is the published setting for ImageNet: linear heads on a frozen backbone.
    On images, with ``backbone``, the whole network is trained on augmented samples and neighbours,
    followed by self-labelling, as published for CIFAR.

    Parameters
    ----------
    n_clusters : int, default=8
        k.
    n_heads : int, default=10
        Number of heads, trained in parallel; published: 1, and 10 for ImageNet.
    n_neighbors : int, default=20
        Neighbours of a sample, not counting itself; published: 50 for ImageNet. At most a
        twentieth of the samples.
    balance : float, default=5
        λ. Use less for clusters of unequal sizes.
    epochs : int, default=50
        Passes over the samples.
    batch_size : int, default=512
        A batch should hold many samples of every cluster.
    lr : float, optional
        Learning rate of Adam; 3e-3 for heads on embeddings, 1e-4 for a whole network as published.
    consensus : bool, default=False
        Average all heads, matched to the best one, instead of using only the best one.
    self_label_epochs : int, optional
        Passes of self-labelling: strong views learn the cluster of the original sample if its
        probability is above ``threshold``. 20 on images (published: 200), 0 on embeddings. There
        it is a *surrogate*: embeddings cannot be augmented, so a point between the sample and a
        neighbour replaces the strong view.
    threshold : float, default=0.99
        Probability required for self-labelling.
    backbone : path, optional
        For images: an encoder written by ``unbend pretrain``.
    device : str, default="auto"
        ``"cpu"``, ``"cuda"``, ...
    random_state : int, RandomState or None, default=None
        Seed of all randomness.
    verbose : int, default=0
        1 shows progress.

    Attributes
    ----------
    labels_ : ndarray of shape (n,)
        Cluster of each sample, numbered by falling size.
    head_losses_ : ndarray of shape (n_heads,)
        Loss of each head, computed without labels; it selects the best one.
    best_head_ : int
        The head with the lowest loss.
    history_ : list of dict
        One row per step.

    Notes
    -----
    As published, the best head is the one with the lowest loss with λ = 1 over the five nearest
    neighbours; here on all samples after the last epoch, there on the test images at every epoch.
    Differences from the released program: Adam instead of SGD at rate 5 for heads on embeddings;
    images are augmented as in the preset for their size instead of by RandAugment and cutout; if
    no sample passes the threshold, self-labelling is skipped with a warning instead of an error;
    there is no moving average, which in the original scales each step by a thousandth.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import make_blobs
    >>> X, y = make_blobs(60, centers=[[0, 0], [9, 0], [0, 9]], random_state=0)
    >>> sorted(np.bincount(SCAN(3, random_state=0).fit(X).labels_).tolist())
    [20, 20, 20]
    """

    n_heads: int = 10
    n_neighbors: int = 20
    balance: float = 5.0
    epochs: int = 50
    batch_size: int = 512
    lr: float | None = None
    consensus: bool = False
    self_label_epochs: int | None = None
    threshold: float = 0.99
    backbone: str | Path | None = None

    def _spec(self, n_in: int) -> HeadSpec:
        return HeadSpec(self.n_heads, n_in, self.n_clusters)

    def _learn(self, session: Session) -> Tensor:
        views, images = session.views, session.on_images
        pairs = session.pairs(self.n_neighbors, with_self=True)

        def compute(index: Tensor, step: int) -> Tensor:
            log_p = session.log_p(views.seen(index))
            return scan_loss(log_p, session.log_p(views.seen(pairs(index))), self.balance)

        session.model.train()
        session.descend(
            "SCAN",
            compute,
            session.model.parameters(),
            lr=self.lr or (1e-4 if images else 3e-3),
            weight_decay=1e-4 if images else 0.0,
            epochs=self.epochs,
            batch_size=self.batch_size,
        )
        losses = self._chosen_by(session, pairs)
        passes = self.self_label_epochs
        passes = (20 if images else 0) if passes is None else passes
        if passes:
            learn_from_self(
                session,
                pairs.neighbors[:, 1:],
                self.threshold,
                epochs=passes,
                batch_size=self.batch_size,
                lr=self.lr or (1e-4 if images else 3e-3),
            )
        return losses

    @torch.no_grad()
    def _chosen_by(self, session: Session, pairs: Pairs) -> Tensor:
        """The loss of each head with λ = 1 over the nearest neighbours of all original samples."""
        log_p = session.probabilities().clamp_min(1e-30).log()
        near = pairs.neighbors[:, 1 : 1 + _CHOOSING_NEIGHBORS].T
        return torch.stack([scan_loss(log_p, log_p[:, rows], 1.0) for rows in near]).mean(0).cpu()
