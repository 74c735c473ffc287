"""Predictions of a model as rows of the table of labels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from unbend.estimator import Assessment
from unbend.runs import LabelRows

__all__ = ["label_rows"]


def label_rows(
    samples: Sequence[str],
    found: Assessment,
    *,
    labels: NDArray[np.int64] | None = None,
    all_probabilities: bool = False,
) -> LabelRows:
    """Rows for samples of these names; ``labels`` replace the predicted ones."""
    p = found.probabilities
    return LabelRows(
        samples,
        found.labels if labels is None else labels,
        p.max(axis=1),
        found.outlier_score,
        p if all_probabilities else None,
    )
