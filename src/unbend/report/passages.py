"""Words and passages of clusters of texts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unbend.report.map2d import sample_by_cluster
from unbend.texts import passage, top_words

__all__ = ["choose_passages"]

_MOST = 6_000  # passages in a run, as many as thumbnails


def choose_passages(texts: Sequence[str], labels: NDArray[np.int64], k: int) -> dict[str, Any]:
    """What ``passages.json`` holds: the top words of each cluster, and passages of some texts."""
    rows = sample_by_cluster(labels, _MOST, seed=0)
    return {
        "words": top_words(texts, labels, k),
        "indices": rows.tolist(),
        "passages": [passage(texts[i]) for i in rows],
    }
