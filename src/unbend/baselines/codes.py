"""MLC's successors: the same two heads, another objective in stage 2."""

from __future__ import annotations

import copy
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import ClusterMixin
from torch import Tensor
from torch.nn.functional import normalize
from torch.optim import SGD

from unbend.baselines.deep import DeepPeer, Tools
from unbend.config import Stage2Config
from unbend.data import Batches, ViewSampler
from unbend.labels import LabelModel, label_codes
from unbend.networks import Network
from unbend.training import Guard, History, Terms, descend, gather, n_steps, share

__all__ = ["CodePeer"]


class CodePeer(ClusterMixin, DeepPeer):
    """Base of peers with codes: copy the feature head, train both heads, cluster the codes.

    A subclass writes ``_terms``.
    """

    absolute: ClassVar[bool] = False  # whether c and -c are the same code

    labels_: NDArray[np.int64]
    n_clusters_: int
    _before: Network | None  # as stage 1 left it

    def _terms(self, Z: Tensor, C: Tensor, config: Stage2Config) -> Terms:
        """Loss and rates from features Z (n, d) and the codes of each view C (A, n, d)."""
        raise NotImplementedError

    def _train(self, network: Network, views: ViewSampler, tools: Tools) -> History:
        config, fabric = tools.config.stage2, tools.fabric
        network.copy_feature_head()
        self._before = copy.deepcopy(network).cpu() if config.join == "stage1" else None
        trained: Any = fabric.setup_module(network)
        trained.train()
        network.backbone.requires_grad_(False)
        network.backbone.eval()
        batches = Batches(len(views), config.batch_size, tools.generator)

        def compute(step: int) -> Terms:
            outputs = [trained(share(x)) for x in views(next(batches))]
            Z = torch.stack([gather(out.Z.float()) for out in outputs]).mean(0)
            C = torch.stack([gather(out.C.float()) for out in outputs])
            return self._terms(normalize(Z, dim=1), C, config)

        optimizers: list[Any] = [
            fabric.setup_optimizers(
                SGD(
                    head.parameters(),
                    config.lr,
                    momentum=config.momentum,
                    weight_decay=config.weight_decay,
                )
            )
            for head in (network.feature_head, network.cluster_head)
        ]
        name = type(self).__name__
        return descend(
            compute,
            optimizers,
            n_steps=n_steps(
                len(views), config.batch_size, config.epochs, config.min_steps, config.max_steps
            ),
            lr_factor=lambda step: 1.0,
            guard=Guard(trained, optimizers, name, network.feature_head.dim, config.eps_sq),
            fabric=fabric,
            progress=tools.progress,
            accumulate=config.accumulate,
            max_norm=config.max_norm,
            parts={"generator": tools.generator, "views": views, "batches": batches},
            unit=views.unit,
        )

    def _conclude(self, samples: Tensor, tools: Tools) -> None:
        Z, C = (t.float() for t in self._network.encode(samples))
        self._label_model: LabelModel = label_codes(
            C,
            Z,
            self.n_clusters,
            eta=tools.config.stage2.eta,
            eps_sq=tools.config.stage2.eps_sq,
            seed=tools.seed,
            absolute=self.absolute,
            join=tools.config.stage2.join,
            before=None if self._before is None else self._before.encode(samples).Z.float(),
            progress=tools.progress,
        )
        self._before = None  # has served
        self.labels_ = self._label_model.labels.copy()
        self.n_clusters_ = self._label_model.n_clusters

    def predict(self, X: Any) -> NDArray[np.int64]:
        """Cluster of each sample: the arg max of :meth:`predict_proba`."""
        output, _ = self._encode(X)
        return self._label_model.predict(output.C)

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Probability of each cluster: the sum over its members j of Γ_xj, shape (m, k)."""
        output, _ = self._encode(X)
        return self._label_model.predict_proba(output.C)
