"""How well linear classifiers learn a labelling: a score for choosing anything without labels."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold

__all__ = ["generalization_score"]


def generalization_score(
    spaces: Sequence[NDArray[Any]], labels: NDArray[np.int64], n_folds: int = 10, seed: int = 0
) -> float:
    """Cross-validated accuracy of logistic regression on the labels, mean over spaces.

    TURTLE's rule: of several labellings, take the one that generalises best. It needs no true
    labels and serves any clustering of the same samples into the same number of clusters. A
    labelling with one cluster has nothing to learn and scores zero.

    >>> X = np.repeat([[0.0], [9.0]], 20, axis=0)
    >>> generalization_score([X], np.repeat([0, 1], 20), n_folds=5)
    1.0
    """
    folds = KFold(min(n_folds, len(labels)), shuffle=True, random_state=seed)
    hits = []
    for X in spaces:
        for train, test in folds.split(X):
            if len(np.unique(labels[train])) < 2:
                return 0.0
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)  # accuracy is settled earlier
                model = LogisticRegression(max_iter=50).fit(X[train], labels[train])
            hits.append(float(np.mean(model.predict(X[test]) == labels[test])))
    return float(np.mean(hits))
