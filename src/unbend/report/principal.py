"""Principal images: what the directions of a cluster's subspace mean.

The paper's appendix "Semantic Interpretability" shows a row for each principal component of a
cluster's features, with the images whose features are closest to it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Component", "principal_components"]


class Component(NamedTuple):
    """A direction v of a cluster's subspace.

    ``energy`` is its share of Σ‖z‖². ``members`` are the rows of Z with the largest cosine to it,
    nearest first, and ``cosines`` are these cosines.
    """

    energy: float
    members: NDArray[np.int64]
    cosines: NDArray[np.float64]


def principal_components(
    Z: NDArray[np.floating], n_components: int = 8, n_members: int = 8
) -> list[Component]:
    """The leading principal components of one cluster's features.

    A cluster is a subspace through the origin, so the components are those of ZᵀZ, not centred.
    The sign of a component is arbitrary; it is chosen so that its nearest members are closer.

    Parameters
    ----------
    Z : ndarray of shape (m, d)
        Features of one cluster.
    n_components, n_members : int
        Rows and columns of the picture; a small cluster has fewer.

    Examples
    --------
    >>> found = principal_components(np.array([[1.0, 0], [0.9, 0.1], [0.0, 0.2]]), 1, 2)
    >>> found[0].members.tolist()
    [0, 1]
    """
    Z = np.asarray(Z, dtype=np.float64)
    if Z.ndim != 2:
        raise ValueError(f"`Z` of principal_components must be (m, d), got shape {Z.shape}")
    m = min(n_members, len(Z))
    power, vectors = np.linalg.eigh(Z.T @ Z)
    power = power[::-1].clip(0)
    total = float(power.sum())
    count = min(n_components, len(Z), Z.shape[1]) if total > 0 else 0
    lengths = np.maximum(np.linalg.norm(Z, axis=1), 1e-12)
    cosines = (Z @ vectors[:, ::-1][:, :count]) / lengths[:, None]
    found = []
    for c in range(count):
        up, down = (np.argsort(-s * cosines[:, c], kind="stable")[:m] for s in (1, -1))
        sign = 1 if cosines[up, c].sum() >= -cosines[down, c].sum() else -1
        members = up if sign == 1 else down
        found.append(Component(float(power[c] / total), members, sign * cosines[members, c]))
    return found
