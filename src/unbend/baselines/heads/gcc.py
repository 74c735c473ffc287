"""GCC: contrastive losses between clusters, and between samples, over a neighbour graph."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from unbend.baselines.heads.estimator import LinearHeads
from unbend.baselines.heads.losses import class_contrast, marginal_entropy
from unbend.baselines.heads.session import Session
from unbend.baselines.registry import peer
from unbend.pretrain.method import mlp

__all__ = ["GCC", "assignment_loss", "degrees", "graph_contrast"]

_GRAPH_EPOCHS = 5  # epochs between two graphs, as published
_POSITIVES = 3  # neighbours of an anchor in the contrast between samples, as published


def assignment_loss(log_p: Tensor, log_q: Tensor, balance: float) -> Tensor:
    """GCC's assignment loss (AGC) of samples and one neighbour each (..., b, k).

    The cross entropy between the cosines of clusters and the identity, plus
    λ (log k - H(mean p)). The minimum is log(1 + (k - 1)/e), for disjoint clusters of equal size.
    """
    P, Q = log_p.exp(), log_q.exp()
    return class_contrast(P, Q) + balance * (math.log(P.shape[-1]) - marginal_entropy(P))


def graph_contrast(
    Z: Tensor, Z_other: Tensor, positive: Tensor, degree: Tensor, temperature: float = 0.1
) -> Tensor:
    """GCC's representation loss (RGC), with a sample's other view and neighbours as positives.

    -log(Σ₊ w_j exp(zᵢᵀ zⱼ/τ) / Σ₋ exp(zᵢᵀ zⱼ/τ)), over the 2b views of the batch.

    Parameters
    ----------
    Z, Z_other : Tensor of shape (b, d)
        Two views of b samples, on the unit sphere.
    positive : bool Tensor of shape (b, b)
        Which samples are neighbours; each sample is a neighbour of itself.
    degree : Tensor of shape (b,)
        Degree of each sample in the whole graph; w_j = (mean degree / degree_j)^½ is the weight of
        the normalised Laplacian, up to a factor per row.
    """
    both = torch.cat([Z, Z_other])
    logits = both @ both.T / temperature
    own = torch.eye(len(both), dtype=torch.bool, device=Z.device)
    mask = positive.repeat(2, 2)
    weight = (degree.mean() / degree).sqrt().log().repeat(2)
    above = (logits + weight).masked_fill(~mask | own, -torch.inf).logsumexp(1)
    below = logits.masked_fill(mask, -torch.inf).logsumexp(1)
    has_both = torch.isfinite(above) & torch.isfinite(below)  # a tiny batch may lack negatives
    return (below - above)[has_both].sum() / len(both)


def degrees(neighbors: Tensor) -> Tensor:
    """Degree of each sample in the symmetrised graph of neighbours (n, j), itself included.

    >>> degrees(torch.tensor([[0, 1], [1, 0], [2, 0]]))
    tensor([3., 2., 2.])
    """
    n, j = neighbors.shape
    rows = torch.arange(n, device=neighbors.device).repeat_interleave(j)
    columns = neighbors.flatten()
    edges: Tensor = torch.unique(torch.cat([rows * n + columns, columns * n + rows]))
    return torch.bincount(edges // n, minlength=n).float()


@peer("gcc", "contrast between clusters over a neighbour graph", year=2021)
@dataclass(eq=False, repr=False, kw_only=True)
class GCC(LinearHeads):
    """Zhong et al., "Graph contrastive clustering", ICCV 2021.

    A cluster is described by its column of probabilities over a batch, once for the samples and
    once for their neighbours. The loss makes the two columns of a cluster similar and those of
    different clusters dissimilar. On images the network is also trained to give neighbours in the
    graph similar features.

    On embeddings only the first loss applies. The second trains a projection that is not used for
    clustering, so without a shared backbone it cannot change the clusters.

    Parameters
    ----------
    n_neighbors : int, default=5
        Neighbours of a sample in the graph, not counting itself. The graph is computed again
        every five epochs on images.
    balance : float, default=2
        λ, the weight of equal cluster sizes.
    n_heads, epochs : int, default=10 and 50
        Published: 1 head and 1000 epochs, the first 51 without clusters; here a backbone from
        stage 1 replaces those.
    batch_size : int, optional
        As in :class:`~unbend.baselines.SCAN`, but 256 on images, as published.
    n_clusters, lr, consensus, backbone, device, random_state, verbose :
        As in :class:`~unbend.baselines.SCAN`.

    Attributes
    ----------
    labels_, head_losses_, best_head_, history_ :
        As in :class:`~unbend.baselines.SCAN`; the loss of a head is its mean over the last epoch.

    Notes
    -----
    The original keeps the checkpoint with the best accuracy on the training labels; this one uses
    the last epoch and the head with the lowest loss. Differences from the released program: a view
    is not compared with itself; the Laplacian's weight is applied once, not twice; the graph is
    computed from the original images, not from the mean of their last four views; the optimiser is
    Adam instead of SGD. Its optional self-labelling step is that of SCAN and not included.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import make_blobs
    >>> X, y = make_blobs(60, centers=[[0, 0], [9, 0], [0, 9]], random_state=0)
    >>> sorted(np.bincount(GCC(3, random_state=0).fit(X).labels_).tolist())
    [20, 20, 20]
    """

    n_neighbors: int = 5
    balance: float = 2.0

    _image_batch: ClassVar[int] = 256

    def _learn(self, session: Session) -> Tensor:
        kind = _Joint if session.on_images else _Assignments
        found = kind(self, session)
        return self._train(session, found.compute, found.graph, tuple(found.extra))


class _Assignments:
    """The assignment loss alone, on fixed features."""

    def __init__(self, peer: GCC, session: Session) -> None:
        self.peer, self.session = peer, session
        self.extra: list[nn.Parameter] = []
        self.pairs = session.pairs(peer.n_neighbors, with_self=True)

    def graph(self, epoch: int) -> None:
        """Keep the graph: fixed features have one."""

    def compute(self, index: Tensor, step: int) -> Tensor:
        return self.assign(index, self.session.views.seen(index))

    def assign(self, index: Tensor, h: Tensor) -> Tensor:
        """The loss of each head for features h and those of one neighbour of each sample."""
        views, log_p = self.session.views, self.session.log_p
        other = views.seen(self.pairs(index))
        return assignment_loss(log_p(h), log_p(other), self.peer.balance)


class _Joint(_Assignments):
    """Both losses, 2 RGC + AGC, which also train the backbone."""

    def __init__(self, peer: GCC, session: Session) -> None:
        super().__init__(peer, session)
        self.degree = degrees(self.pairs.neighbors)
        width = session.model.trunk.out_features
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(session.generator.initial_seed())
            projector = mlp(width, width, 128, norm=False)
        self.projector = projector.to(session.views.samples.device)
        self.extra = list(self.projector.parameters())

    def graph(self, epoch: int) -> None:
        """Search neighbours again in the current features."""
        if epoch and epoch % _GRAPH_EPOCHS == 0:
            self.pairs = self.session.pairs(self.peer.n_neighbors, with_self=True)
            self.degree = degrees(self.pairs.neighbors)

    def compute(self, index: Tensor, step: int) -> Tensor:
        h, h_other = (self.session.views.seen(index) for _ in range(2))
        loss = self.assign(index, h)
        Z, Z_other = (normalize(self.projector(x), dim=1) for x in (h, h_other))
        listed = self.pairs.neighbors[:, :_POSITIVES]
        index = index.to(listed.device)
        near = (listed[index][:, :, None] == index).any(1)
        contrast = graph_contrast(Z, Z_other, near | near.T, self.degree[index])
        return loss + 2 * contrast / len(loss)  # weight 2 in the sum over heads, as published
