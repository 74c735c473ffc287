"""The 1,797 handwritten digits that come with scikit-learn."""

from __future__ import annotations

import numpy as np

from unbend.sources.named.archives import DataStore
from unbend.sources.named.spec import Labelled, Recipe

__all__ = ["DIGITS"]


def _load(store: DataStore, split: str) -> Labelled:
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    images = (X * (255 / 16)).round().astype(np.uint8).reshape(-1, 8, 8)
    return images, y.astype(np.int64)


DIGITS = Recipe(_load, lambda store: [str(i) for i in range(10)], parts=("all",), default="all")
