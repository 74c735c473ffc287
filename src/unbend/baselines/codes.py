"""Base of MLC's successors: the same two heads, a different objective in stage 2."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import ClusterMixin
from torch import Tensor

from unbend.algorithm import solve
from unbend.baselines.deep import DeepPeer
from unbend.begin import Run
from unbend.knobs import Stage2Config
from unbend.rules import whole
from unbend.training import Terms

__all__ = ["CodePeer"]

K = whole(1, "try 10")  # no peer finds the number of clusters


@dataclass(eq=False, repr=False, kw_only=True)
class CodePeer(ClusterMixin, DeepPeer):
    """Base of peers with codes: Algorithm 1 with the ``objective`` of the subclass."""

    n_clusters: int = field(default=8, kw_only=False)
    pretrain_epochs: int | None = None
    eta: float | None = None

    labels_: NDArray[np.int64] = field(init=False)
    n_clusters_: int = field(init=False)

    def objective(
        self, Z: Tensor, C: Tensor, config: Stage2Config, generator: torch.Generator
    ) -> Terms:
        """Loss and rates from features Z (A, n, d) and codes C (A, n, d) of the views."""
        raise NotImplementedError

    def _run(self, run: Run, y: Any) -> None:
        name = type(self).__name__
        solution = solve(run, self.n_clusters, objective=self.objective, name=name)
        self.history_, self._label_model = solution.history, solution.labels
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
