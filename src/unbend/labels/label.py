"""Line 10 of Algorithm 1: from codes to labels, for any number of samples."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unbend.labels.assign import assign, canonical
from unbend.labels.check import check_n_clusters, check_positive, unit_rows
from unbend.labels.hierarchy import merge_clusters
from unbend.labels.kernel import DenseKernel
from unbend.labels.model import OUTLIER_QUANTILES, LabelModel
from unbend.labels.prediction import Representatives
from unbend.labels.spectral import Membership, membership_spectrum
from unbend.labels.subspaces import Subspaces, second_moments
from unbend.progress import Progress, silent

__all__ = ["label_codes"]


def label_codes(
    C: Tensor | NDArray[np.floating],
    Z: Tensor | NDArray[np.floating],
    n_clusters: int,
    *,
    eta: float,
    eps_sq: float = 0.1,
    method: str = "auto",
    seed: int = 0,
    tol: float = 1e-4,
    absolute: bool = False,
    progress: Progress = silent,
) -> LabelModel:
    """Cluster samples by their membership Γ = P_{Ω,η}(C Cᵀ)."""
    C, Z = unit_rows("C", C, "label_codes"), unit_rows("Z", Z, "label_codes")
    if C.shape[0] != Z.shape[0]:
        raise ValueError(f"`C` and `Z` must have equally many rows, got {len(C)} and {len(Z)}")
    check_n_clusters(n_clusters, C.shape[0])
    check_positive("eta", eta, "0.175")
    check_positive("eps_sq", eps_sq, "0.1")
    k = n_clusters
    membership = Membership.of(DenseKernel(C, eta, absolute), tol, progress)
    spectrum = membership_spectrum(membership, k + 1, seed, progress)
    spectral = assign(spectrum.vectors, k)
    reps = Representatives(C, membership.scaling.potential(eta), spectral, k, eta, absolute)
    labels, _ = reps.classify(C)
    rank = torch.from_numpy(canonical(labels.cpu().numpy(), k)).to(C.device)
    reassigned = float((labels != spectral).double().mean())
    labels = rank[labels]
    reps = Representatives(C, reps.potential, rank[spectral], k, eta, absolute)
    subspaces = Subspaces(*second_moments(Z, labels, k), eps_sq)
    scores = subspaces.residual(Z).cpu().numpy()
    return LabelModel(
        labels=labels.cpu().numpy(),
        n_clusters=k,
        eigenvalues=spectrum.values.cpu().numpy().astype(np.float64),
        method="dense",
        merge_tree=merge_clusters(subspaces.moments, subspaces.counts, eps_sq),
        representatives=reps,
        subspaces=subspaces,
        outlier_quantiles={q: float(np.quantile(scores, q)) for q in OUTLIER_QUANTILES},
        reassigned=reassigned,
    )
