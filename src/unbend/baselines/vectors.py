"""Base of the peers that cluster vectors: parameters, input checks, ``labels_``.

Peers declare their parameters as dataclass fields. scikit-learn reads them from the signature of
the ``__init__`` that ``dataclass`` writes; all but ``n_clusters`` are keyword-only.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.utils.validation import validate_data

from unbend.baselines.rules import check_count, check_rules

__all__ = ["VectorPeer"]


@dataclass(eq=False, repr=False, kw_only=True)
class VectorPeer(ClusterMixin, BaseEstimator):
    """Base of the peers that cluster vectors; a subclass implements ``_labels``."""

    n_clusters: Any = field(default=8, kw_only=False)
    random_state: Any = None

    labels_: NDArray[np.int64] = field(init=False)
    n_features_in_: int = field(init=False)

    def fit(self, X: Any, y: Any = None) -> Any:
        """Cluster X.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Samples.
        y : None
            Ignored, present for scikit-learn.
        """
        check_rules(self)
        X = validate_data(self, X, dtype=[np.float64, np.float32], ensure_min_samples=2)
        check_count(self, len(X))
        self.labels_ = self._labels(X)
        return self

    def _labels(self, X: NDArray[Any]) -> NDArray[np.int64]:
        raise NotImplementedError
