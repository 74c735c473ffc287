"""NMCE: rate reduction over features and a point-cluster membership."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import ClusterMixin
from torch import Tensor
from torch.nn.functional import normalize
from torch.optim import SGD, Optimizer

from unbend.algorithm import head_parameters, linearize
from unbend.baselines.codes import K
from unbend.baselines.deep import DeepPeer
from unbend.baselines.membership_rate import membership_rate
from unbend.baselines.registry import peer
from unbend.begin import Run
from unbend.functional import coding_rate
from unbend.knobs import Stage2Config
from unbend.networks import Head, Network
from unbend.pretrain import pretrain
from unbend.pretrain.stage import make_optimizer
from unbend.rules import NOT_NEGATIVE, POSITIVE
from unbend.training import Terms, fused_for, steps_of, warmup_cosine

__all__ = ["NMCE", "gumbel_softmax", "nmce_objective"]


class LogitHead(Head):
    """A cluster head whose k outputs are logits, not a point on the sphere."""

    def forward(self, h: Tensor) -> Tensor:
        logits: Tensor = self.layers(h)
        return logits


def gumbel_softmax(logits: Tensor, temperature: float, generator: torch.Generator) -> Tensor:
    """A relaxed draw from the categorical distributions of ``logits`` (n, k).

    softmax((logits + g)/τ) with g = -log(-log u), u uniform on (0, 1) (Jang et al., 2017). The
    arg max of a row is an exact draw from softmax(logits).
    """
    u = torch.rand(logits.shape, generator=generator).clamp_(1e-20, 1 - 1e-7)
    noise = -(-u.log()).log()
    return ((logits + noise.to(logits)) / temperature).softmax(1)


def nmce_objective(
    Z_views: Tensor, Pi: Tensor, eps_sq: float, invariance: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Loss of NMCE's second stage, and R and R_c.

    -½ (R(Z) - R_c(Z, Π)) - λ · mean cosine of views, with Z the unit-norm mean of the views
    ``Z_views`` (A, n, d) and Π (n, k).
    """
    Z = normalize(Z_views.mean(0), dim=1)
    R, R_c = coding_rate(Z, eps_sq), membership_rate(Z, Pi, eps_sq)
    pairs = [(a, b) for b in range(len(Z_views)) for a in range(b)]
    cosine = sum((Z_views[a] * Z_views[b]).sum(1).mean() for a, b in pairs) / max(1, len(pairs))
    return -0.5 * (R - R_c) - invariance * cosine, R, R_c


@peer("nmce", "rate reduction with a point-cluster membership", year=2022, takes="images")
@dataclass(eq=False, repr=False, kw_only=True)
class NMCE(ClusterMixin, DeepPeer):
    r"""Neural Manifold Clustering and Embedding (Li et al. [1]_), MLC's closest relative.

    Maximises the rate reduction of Eq. (2) of the MLC paper over the features and a soft
    *point-cluster* membership Π (n, k) drawn by Gumbel-softmax from the logits of a cluster head,

    .. math:: \max_\theta \tfrac12 \bigl[R(Z; \epsilon) - R_c(Z, \Pi; \epsilon)\bigr]
              + \lambda \tfrac1n \sum_i z_i^\top z'_i

    after the same self-supervised stage 1 as MLC. The cluster head starts from random weights,
    which MLC's point-point membership avoids.

    Parameters
    ----------
    n_clusters : int, default=8
        k.
    preset : {"auto", "images", "vectors", "paper"}, default="auto"
        The source of all settings that are not given, as in MLC.
    dim, backbone, pretrain_epochs, epochs, batch_size, eps_sq : optional
        As in MLC; ``eps_sq`` is 0.2 as published.
    temperature : float, default=1.0
        τ of the Gumbel-softmax.
    cluster_lr, cluster_weight_decay : float, default=0.5 and 0.005
        SGD of the cluster head.
    settings : dict, optional
        Any other knob by its dotted name.
    device, precision, random_state, verbose :
        As in MLC.

    Attributes
    ----------
    labels_ : ndarray of shape (n,)
        Cluster of each sample, numbered by falling size.
    n_clusters_ : int
        Number of non-empty clusters.
    history_ : list of dict
        A row per training step.

    Notes
    -----
    Differences from the published program: the networks, views and stage 1 are MLC's. The feature
    head keeps stage 1's optimiser and learning rate (LARS at 0.3 in the preset ``"paper"``, as
    published; Adam in the presets for small data, as in MLC's stage 1), with cosine decay. λ is
    stage 1's weight (30 for R/2 at d = 128). The third stage, which trains the backbone for
    another 100 epochs, is left out, as in the MLC paper's comparison over seeds. Labels are the
    arg max of the logits.

    References
    ----------
    .. [1] Z. Li, Y. Chen, Y. LeCun, F. T. Sommer, "Neural manifold clustering and embedding",
       2022.

    Examples
    --------
    >>> from sklearn.datasets import make_blobs
    >>> X, y = make_blobs(60, centers=[[0, 0], [9, 0], [0, 9]], random_state=0)
    >>> NMCE(n_clusters=3, random_state=0).fit(X).labels_.shape
    (60,)
    """

    n_clusters: int = field(default=8, kw_only=False)
    pretrain_epochs: int | None = None
    temperature: float = 1.0
    cluster_lr: float = 0.5
    cluster_weight_decay: float = 0.005

    published: ClassVar[dict[str, Any]] = {"stage2.eps_sq": 0.2, "pretrain.epochs": 600}
    adapted: ClassVar[dict[str, Any]] = {"stage2.eps_sq": 0.2}
    rules: ClassVar[dict[str, Any]] = {
        "n_clusters": K,
        "temperature": POSITIVE,
        "cluster_lr": POSITIVE,
        "cluster_weight_decay": NOT_NEGATIVE,
    }

    labels_: NDArray[np.int64] = field(init=False)

    def _run(self, run: Run, y: Any) -> None:
        network, config = run.network, run.config
        history = []
        if not run.started:
            history += pretrain(network, run.views, config.pretrain, run.tools)
        run.refresh_views()
        network.cluster_head = _logit_head(run, self.n_clusters)
        weight = config.pretrain.invariance * network.feature_head.dim / 2
        total = steps_of(config.stage2, len(run.views))

        def objective(
            Z: Tensor, C: Tensor, config: Stage2Config, generator: torch.Generator
        ) -> Terms:
            Pi = gumbel_softmax(C.mean(0), self.temperature, generator)
            loss, R, R_c = nmce_objective(Z, Pi, config.eps_sq, weight)
            return Terms(loss, R, R_c, normalize(Z.mean(0), dim=1))

        def make_optimizers(network: Network, stage2: Stage2Config) -> list[Optimizer]:
            feature, cluster = head_parameters(network, stage2)
            options: dict[str, Any] = {"momentum": 0.9, "weight_decay": self.cluster_weight_decay}
            second = SGD(cluster, self.cluster_lr, **options, fused=fused_for(cluster))
            return [make_optimizer(feature, config.pretrain), second]

        self.history_ = history + linearize(
            run,
            objective=objective,
            name="NMCE",
            make_optimizers=make_optimizers,
            lr_factor=lambda step: warmup_cosine(step, total, 0.0),
        )
        self._count(network.encode(run.samples).C)

    def _count(self, logits: Tensor) -> None:
        """Labels numbered by falling size, from the logits of all samples."""
        raw = logits.argmax(1).cpu().numpy()
        sizes = np.bincount(raw, minlength=self.n_clusters)
        self._order = np.argsort(-sizes, kind="stable")
        self.labels_ = np.argsort(self._order)[raw].astype(np.int64)
        self.n_clusters_ = int((sizes > 0).sum())

    def predict(self, X: Any) -> NDArray[np.int64]:
        """Cluster of each sample: the arg max of :meth:`predict_proba`."""
        labels: NDArray[np.int64] = self.predict_proba(X).argmax(1)
        return labels

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Probability of each cluster, the softmax of the logits, shape (m, k)."""
        output, _ = self._encode(X)
        return output.C.double().softmax(1).numpy()[:, self._order]


def _logit_head(run: Run, k: int) -> LogitHead:
    """A head of k logits with weights drawn from the seed alone."""
    config = run.config.network
    first = next(run.network.feature_head.parameters())
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(run.seed + 1)  # not the seed of the feature head
        head = LogitHead(first.shape[1], k, config.head_width, config.head_depth, config.head_norm)
    return head.to(first)
