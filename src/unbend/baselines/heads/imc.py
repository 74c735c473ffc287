"""IMC-SwAV: clusters with maximal mutual information with many small prototypes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from sklearn.cluster import KMeans
from torch import Tensor, nn
from torch.nn.functional import normalize, relu

from unbend.baselines.heads.estimator import HeadPeer
from unbend.baselines.heads.losses import entropy
from unbend.baselines.heads.session import Session
from unbend.baselines.heads.stacked import HeadSpec
from unbend.baselines.heads.views import ImageViews
from unbend.baselines.registry import peer
from unbend.config import PRESETS, PretrainConfig, ViewConfig, preset_for
from unbend.networks import build_network
from unbend.pretrain import build_method
from unbend.pretrain.methods.swav import swapped_prediction
from unbend.samples import ViewSampler

__all__ = ["IMCSwAV", "information_loss", "logit_excess"]

_PLACEMENT_STEPS = 10  # of k-means; prototypes only need to cover the samples
_EXCESS_WEIGHT = 0.01  # of logits beyond the bound, as published


def information_loss(P: Tensor, U: Tensor, balance: float) -> Tensor:
    """H(Y|U) - β H(Y) for probabilities of clusters P (..., b, k) and of prototypes U (b, m).

    The joint distribution of cluster and prototype is the mean of p(x) u(x)ᵀ over the batch. The
    minimum is -β log k: prototypes determine the cluster, and all clusters have the same size.
    """
    joint = P.mT @ U / U.shape[-2]
    H_joint, H_U, H_Y = (entropy(p) for p in (joint.flatten(-2), joint.sum(-2), joint.sum(-1)))
    return H_joint - H_U - balance * H_Y


def logit_excess(logits: Tensor, bound: float) -> Tensor:
    """Sum of the excess of logits (..., b, k) over ±bound, averaged over the batch."""
    excess: Tensor = relu(logits.abs() - bound).sum(-1).mean(-1)
    return excess


@peer("imc-swav", "information about many small prototypes", year=2022)
@dataclass(eq=False, repr=False, kw_only=True)
class IMCSwAV(HeadPeer):
    """Ntelemis et al., "Information maximization clustering via multi-view self-labelling",
    Knowledge-Based Systems 2022.

    A head learns clusters of equal size that the small prototype of a sample predicts: a soft
    partition of the prototypes. Its gradient does not reach the encoder.

    On embeddings the prototypes are the centres of k-means with many clusters, a *surrogate* for
    those that SwAV learns, and the second view is a neighbour. On images, with ``backbone``, SwAV
    keeps training encoder and prototypes alongside the head, as published.

    Parameters
    ----------
    n_clusters : int, default=8
        k.
    n_heads : int, default=1
        As published.
    n_prototypes : int, default=1000
        As published; at most a quarter of the samples, and at least k.
    n_neighbors : int, default=20
        Neighbours that the second view is drawn from, on embeddings.
    balance : float, default=4
        β, as published.
    temperature : float, default=0.1
        Temperature of the softmax over prototypes.
    logit_bound : float, default=5
        Logits beyond it are penalised.
    hidden : int, default=512
        Width of the two hidden layers; published: 1024.
    epochs : int, default=20
        Passes over the samples, at least 500 steps; published: 500 passes, from scratch.
    batch_size : int, optional
        256 as published, and at least ten samples per cluster; published: 512 for a hundred.
    lr : float, default=5e-4
        Learning rate of Adam with momentum 0.8, as published.
    consensus, backbone, device, random_state, verbose :
        As in :class:`~unbend.baselines.SCAN`.

    Attributes
    ----------
    labels_, head_losses_, best_head_, history_ :
        As in :class:`~unbend.baselines.SCAN`; the loss of a head is its mean over the last epoch.

    Notes
    -----
    SwAV starts with new prototypes even if SwAV trained the backbone, because the directory of an
    encoder holds none. The original re-estimates batch normalisation on the test images before
    predicting; this one uses the training statistics. The original lowers the rate in three
    steps; here it is constant.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import make_blobs
    >>> X, y = make_blobs(60, centers=[[0, 0], [9, 0], [0, 9]], random_state=0)
    >>> sorted(np.bincount(IMCSwAV(3, random_state=0).fit(X).labels_).tolist())
    [20, 20, 20]
    """

    n_heads: int = 1
    n_prototypes: int = 1000
    n_neighbors: int = 20
    balance: float = 4.0
    temperature: float = 0.1
    logit_bound: float = 5.0
    hidden: int = 512
    epochs: int = 20
    batch_size: int | None = None
    lr: float = 5e-4
    consensus: bool = False
    backbone: str | Path | None = None

    _decay = 1e-5  # of the weights, as published

    def _spec(self, n_in: int) -> HeadSpec:
        hidden = (self.hidden, self.hidden)
        return HeadSpec(self.n_heads, n_in, self.n_clusters, hidden, norm=True)

    def _learn(self, session: Session) -> Tensor:
        count = max(self.n_clusters, min(self.n_prototypes, len(session.views) // 4), 2)
        count = min(count, len(session.views))
        source = (_SwAV if session.on_images else _Centres)(self, session, count)
        session.model.train()
        return session.descend(
            "IMC-SwAV",
            source.compute,
            [*session.model.heads.parameters(), *source.parameters],
            lr=self.lr,
            betas=(0.8, 0.999),
            weight_decay=self._decay,
            epochs=self.epochs,
            batch_size=self._batch(256),
            after_step=source.after_step,
        )

    def _clustering(self, session: Session, views: list[Tensor], U: list[Tensor]) -> Tensor:
        """The loss of each head over all ordered pairs of views.

        All views go through the heads in one pass, so that batch normalisation sees all of them.
        """
        logits = session.model.heads(torch.cat(views))
        P = [part.softmax(-1) for part in logits.chunk(len(views), 1)]
        losses = [information_loss(p, u, self.balance) for p in P for u in U]
        excess = logit_excess(logits, self.logit_bound)
        return torch.stack(losses).mean(0) + _EXCESS_WEIGHT * excess


class _Centres:
    """Fixed prototypes of embeddings: the centres of k-means on the unit sphere."""

    def __init__(self, peer: IMCSwAV, session: Session, count: int) -> None:
        self.peer, self.session = peer, session
        self.parameters: list[nn.Parameter] = []
        h = session.views.features()
        self.pairs = session.pairs(peer.n_neighbors)
        unit = normalize(h, dim=1)
        seed = int(torch.randint(2**31 - 1, (), generator=session.generator))
        model = KMeans(
            count, init="random", n_init=1, max_iter=_PLACEMENT_STEPS, random_state=seed
        ).fit(unit.cpu().numpy())
        centres = normalize(torch.from_numpy(model.cluster_centers_).to(unit), dim=1)
        self.U = (unit @ centres.T / peer.temperature).softmax(1)

    def compute(self, index: Tensor, step: int) -> Tensor:
        partner = self.pairs(index)
        views = [self.session.views.seen(rows) for rows in (index, partner)]
        U = [self.U[rows.to(self.U.device)] for rows in (index, partner)]
        return self.peer._clustering(self.session, views, U)

    def after_step(self, step: int) -> None:
        """Do nothing: the prototypes are fixed."""


class _SwAV:
    """SwAV trains alongside the head, which uses its features without a gradient."""

    def __init__(self, peer: IMCSwAV, session: Session, count: int) -> None:
        self.peer, self.session = peer, session
        views, trunk = session.views, session.model.trunk
        assert isinstance(views, ImageViews)
        assert trunk.config is not None
        shape = tuple(views.samples.shape[1:])
        swav = {"pretrain.method": "swav", "pretrain.swav.prototypes": count}
        swav["pretrain.swav.temperature"] = peer.temperature
        config = PRESETS[preset_for(shape)].override(swav)
        self.config: PretrainConfig = config.pretrain
        network = build_network(shape, trunk.config, session.generator.initial_seed())
        network.backbone, network.mean, network.std = trunk.backbone, trunk.mean, trunk.std
        network = network.to(views.samples.device)
        self.method: Any = build_method(network, self.config, 1, session.generator.initial_seed())
        self.parameters = self.method.trainable()
        self.sampler = ViewSampler(
            views.samples, ViewConfig(augmentation=views.policy), session.generator
        )

    def compute(self, index: Tensor, step: int) -> Tensor:
        own = self.config.swav
        drawn = self.method.draw(self.sampler, index)
        H = [self.session.model.trunk(x) for x in drawn]
        prototypes = normalize(self.method.prototypes, dim=1)
        scores = [normalize(self.method.projector(h), dim=1) @ prototypes.T for h in H]
        n_full = sum(x.shape == drawn[0].shape for x in drawn)
        swav = swapped_prediction(scores, n_full, own.temperature, own.eps, own.iterations)
        U = [(s.detach() / self.peer.temperature).softmax(1) for s in scores]
        losses = self.peer._clustering(self.session, [h.detach() for h in H], U)
        return losses + swav / len(losses)

    def after_step(self, step: int) -> None:
        self.method.after_step(step)
