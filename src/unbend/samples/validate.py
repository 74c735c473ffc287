"""Validate the input of an estimator: vectors or images."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import validate_data
from torch import Tensor

from unbend.samples.arrays import Scaling, as_array

__all__ = ["check_samples"]


def check_samples(estimator: Any, X: Any, fitted: Scaling | None = None) -> NDArray[Any]:
    """Validate samples with scikit-learn's error messages; images keep their dimensions.

    Parameters
    ----------
    estimator : BaseEstimator
        ``n_features_in_`` is set on it during fit.
    X : array-like or Tensor
        Vectors (n, p), or images (n, h, w) or (n, c, h, w).
    fitted : Scaling, optional
        Scaling of the data the estimator was fitted on; None during fit.
    """
    ndim = X.ndim if hasattr(X, "ndim") else np.ndim(X) if isinstance(X, (list, tuple)) else 2
    if ndim > 4:
        raise ValueError(
            f"X must have 2 dimensions (vectors), or 3 or 4 (images), got shape {np.shape(X)}; "
            "reshape your data"
        )
    if ndim == 1 and not isinstance(X, (list, tuple)):  # scikit-learn would print all of it
        raise ValueError(
            f"Expected 2D array, got 1D array instead: X has shape {np.shape(X)}. Reshape your "
            "data with X.reshape(-1, 1) if it is one column, X.reshape(1, -1) if it is one sample"
        )
    on_images = ndim in (3, 4)
    if fitted is not None and fitted.is_image != on_images:
        what = f"images of shape {fitted.shape}"
        if not fitted.is_image:
            what = f"vectors of width {estimator.n_features_in_}"
        raise ValueError(f"X has {ndim} dimensions, but the model was fitted on {what}; reshape X")
    if on_images:
        return _check_images(estimator, X, fitting=fitted is None)
    array: NDArray[Any] = validate_data(
        estimator,
        as_array(X) if isinstance(X, Tensor) else X,
        reset=fitted is None,
        dtype=[np.float64, np.float32],
        ensure_all_finite=False,  # scikit-learn's message does not say where
        ensure_min_samples=2 if fitted is None else 1,
    )
    _check_finite(array, "Input X", "rows")
    return array


def _check_finite(array: NDArray[Any], what: str, unit: str) -> None:
    """Raise a ValueError that counts the samples with NaN or infinity."""
    if array.dtype.kind != "f" or np.isfinite(array).all():
        return
    bad = np.flatnonzero(~np.isfinite(array).reshape(len(array), -1).all(axis=1))
    kind = "NaN" if np.isnan(array).any() else "infinity"
    raise ValueError(
        f"{what} contains {kind} in {len(bad)} of {len(array)} {unit}, the first is {bad[0]}; "
        "remove them, or call unbend.workflows.cluster, which skips and lists them"
    )


def _check_images(estimator: Any, X: Any, *, fitting: bool) -> NDArray[Any]:
    array, least = as_array(X), 2 if fitting else 1
    _check_finite(array, "X", "images")
    if len(array) < least:
        raise ValueError(
            f"Found array with {len(array)} sample(s) (shape={array.shape}) while a minimum of "
            f"{least} is required by {type(estimator).__name__}."
        )
    if fitting:
        estimator.n_features_in_ = int(np.prod(array.shape[1:]))
        estimator.__dict__.pop("feature_names_in_", None)  # left by an earlier fit on a table
    return array
