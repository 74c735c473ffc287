"""SCAN: a sample and its neighbours belong to the same cluster."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unbend.baselines.heads.estimator import LinearHeads
from unbend.baselines.heads.losses import consistency, marginal_entropy
from unbend.baselines.heads.pairs import Pairs
from unbend.baselines.heads.self_labels import learn_from_self
from unbend.baselines.heads.session import Session
from unbend.baselines.registry import peer
from unbend.exceptions import UnbendWarning

__all__ = ["SCAN", "scan_loss"]

_CHOOSING_NEIGHBORS = 5  # neighbours in the loss that selects a head, as published


def scan_loss(log_p: Tensor, log_q: Tensor, balance: float) -> Tensor:
    """-mean log <p(x), p(y)> - λ H(mean p(x)) for anchors and their neighbours (..., b, k).

    Eq. (2) of SCAN; the entropy is that of the anchors alone. The minimum is -λ log k.
    """
    return consistency(log_p, log_q) - balance * marginal_entropy(log_p.exp())


@peer("scan", "a sample and its neighbours in one cluster", year=2020)
@dataclass(eq=False, repr=False, kw_only=True)
class SCAN(LinearHeads):
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
        Neighbours of a sample, not counting itself; published: 50 for ImageNet. At most n/(2k).
    balance : float, default=5
        λ. Use less for clusters of unequal sizes.
    epochs : int, default=50
        Passes over the samples; at least 500 steps are made.
    batch_size : int, optional
        512 on embeddings and 128 on images, as published, and at least ten samples per cluster.
    lr : float, optional
        Learning rate of Adam. 3e-3 for heads on embeddings. For a whole network 1e-4 as published,
        and in inverse proportion more if clustering has fewer than 20,000 steps, up to 1e-3.
    consensus : bool, default=False
        Average all heads, matched to the best one, instead of using only the best one.
    self_label_epochs : int, optional
        Passes of self-labelling: strong views learn the cluster of the original sample if its
        probability is above ``threshold``, in batches of 1000 as published. 20 on images
        (published: 200), 0 on embeddings. There it is a *surrogate*: embeddings cannot be
        augmented, so a point between the sample and a neighbour replaces the strong view.
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
    clustering_labels_ : ndarray of shape (n,)
        Clusters of the best head before self-labelling, in no particular order.
    history_ : list of dict
        One row per step.
    seconds_ : dict
        Time of each stage.

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

    self_label_epochs: int | None = None
    threshold: float = 0.99

    _saved: ClassVar[tuple[str, ...]] = ("clustering_labels_",)

    def _learn(self, session: Session) -> Tensor:
        views, images = session.views, session.on_images
        pairs = session.pairs(self.n_neighbors, with_self=True)

        def compute(index: Tensor, step: int) -> Tensor:
            log_p = session.log_p(views.seen(index))
            return scan_loss(log_p, session.log_p(views.seen(pairs(index))), self.balance)

        self._train(session, compute)
        P = session.probabilities()
        losses = _selection_loss(P.clamp_min(1e-30).log(), pairs)
        best = int(losses.argmin())
        found: NDArray[np.int64] = P[best].argmax(1).cpu().numpy()
        self.clustering_labels_ = found
        epochs = self.self_label_epochs
        epochs = (20 if images else 0) if epochs is None else epochs
        if epochs:
            others = pairs.neighbors[:, 1:]
            learn_from_self(session, others, self.threshold, epochs=epochs, lr=self.lr)
            after = session.probabilities()[best].argmax(1).cpu().numpy()
            lost = len(np.unique(found)) - len(np.unique(after))
            if lost > 0:
                warnings.warn(
                    f"self-labelling emptied {lost} of {self.n_clusters} clusters; use "
                    "`self_label_epochs=0` or a smaller `lr`",
                    UnbendWarning,
                    stacklevel=4,
                )
        return losses


def _selection_loss(log_p: Tensor, pairs: Pairs) -> Tensor:
    """The loss of each head with λ = 1 over the nearest neighbours of all original samples."""
    near = pairs.neighbors[:, 1 : 1 + _CHOOSING_NEIGHBORS].T
    return torch.stack([scan_loss(log_p, log_p[:, rows], 1.0) for rows in near]).mean(0).cpu()
