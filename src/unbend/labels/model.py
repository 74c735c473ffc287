"""The result of labelling: labels, merge tree, and prediction for new samples."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unbend.labels.check import check_width, unit_rows
from unbend.labels.confidence import cool
from unbend.labels.hierarchy import cut_tree
from unbend.labels.prediction import Representatives
from unbend.labels.selection import ModelSelection

__all__ = ["LabelModel"]


@dataclass(frozen=True)
class LabelModel:
    """Labels of the fitted samples, and the data needed to label new ones.

    Attributes
    ----------
    labels : ndarray of shape (n,), int64
        Clusters are numbered by size, largest first, ties by the first sample.
    n_clusters : int
    eigenvalues : ndarray
        Leading eigenvalues of Γ, largest first; at least ``n_clusters`` of them.
    method : str
        ``"dense"``, ``"blocks"`` or ``"landmarks"``.
    merge_tree : ndarray of shape (n_clusters - 1, 4)
        A SciPy linkage of the clusters: by the judge's score where several labellings were
        compared, up to 100 clusters; otherwise see :func:`~unbend.labels.ward_tree`.
    representatives : Representatives
        Codes and potentials for :meth:`predict_proba`.
    reassigned : float or None
        Fraction of samples whose spectral cluster is not their most probable one. Labels
        are the most probable cluster, so that :meth:`predict` agrees with them. None for
        ``"landmarks"``, where only landmarks have a spectral cluster.
    selection : ModelSelection or None
        How the number of clusters was chosen; None if it was given.
    n_blocks : int or None
        Number of clusters before joining: more than ``n_clusters`` if Γ had more blocks.
    candidates : tuple of dict
        The labellings that :func:`~unbend.labels.choose_labelling` compared, the chosen one
        first; empty if there was only one.
    temperature : float
        Of :meth:`predict_proba`, see :mod:`unbend.labels.confidence`; 1 leaves Γ as it is.
    """

    labels: NDArray[np.int64]
    n_clusters: int
    eigenvalues: NDArray[np.float64]
    method: str
    merge_tree: NDArray[np.float64]
    representatives: Representatives
    reassigned: float | None
    selection: ModelSelection | None = None
    n_blocks: int | None = None
    candidates: tuple[dict[str, Any], ...] = ()
    temperature: float = 1.0

    def predict_proba(self, C_new: Tensor | NDArray[np.floating]) -> NDArray[np.float64]:
        """Probability of each cluster, shape (m, n_clusters), for new codes of shape (m, d)."""
        C = self._codes(C_new)
        out = np.empty((C.shape[0], self.n_clusters))
        for rows, p in self.representatives.probabilities(C):
            out[rows] = p.cpu().numpy()
        # Sums are one up to rounding in the kernel's dtype. Make them one in float64.
        out /= out.sum(1, keepdims=True)
        return cool(out, self.temperature)

    def predict(self, C_new: Tensor | NDArray[np.floating]) -> NDArray[np.int64]:
        """Most probable cluster of new codes: the arg max of :meth:`predict_proba`."""
        return self.representatives.classify(self._codes(C_new))[0].cpu().numpy()

    def labels_at(self, k: int) -> NDArray[np.int64]:
        """Labels when the merge tree is cut into k clusters, 1 ≤ k ≤ ``n_clusters``."""
        whole = isinstance(k, (int, np.integer)) and not isinstance(k, bool)
        if not whole or not 1 <= k <= self.n_clusters:
            raise ValueError(
                f"`k` of labels_at must be an integer from 1 to {self.n_clusters}, the number of "
                f"clusters of the fit, got {k!r}"
            )
        return cut_tree(self.merge_tree, k)[self.labels]

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Tensors (for safetensors) and values (for JSON) that :meth:`from_state` reads."""
        tensors = {
            "labels": torch.from_numpy(self.labels),
            "eigenvalues": torch.from_numpy(self.eigenvalues),
            "merge_tree": torch.from_numpy(self.merge_tree),
            "codes": self.representatives.codes,
            "potential": self.representatives.potential,
            "code_labels": self.representatives.labels,
        }
        meta = {
            "n_clusters": self.n_clusters,
            "method": self.method,
            "eta": self.representatives.eta,
            "absolute": self.representatives.absolute,
            "reassigned": self.reassigned,
            "n_blocks": self.n_blocks,
            "selection": None if self.selection is None else asdict(self.selection),
            "candidates": list(self.candidates),
            "temperature": self.temperature,
        }
        return {name: t.contiguous() for name, t in tensors.items()}, meta

    @classmethod
    def from_state(cls, tensors: dict[str, Tensor], meta: dict[str, Any]) -> LabelModel:
        """Rebuild a model from :meth:`state`."""
        k, selection = int(meta["n_clusters"]), meta["selection"]
        _check_state(tensors, meta, k)
        return cls(
            labels=tensors["labels"].numpy(),
            n_clusters=k,
            eigenvalues=tensors["eigenvalues"].numpy(),
            method=meta["method"],
            merge_tree=tensors["merge_tree"].numpy(),
            representatives=Representatives(
                tensors["codes"],
                tensors["potential"],
                tensors["code_labels"],
                k,
                meta["eta"],
                meta["absolute"],
            ),
            reassigned=meta["reassigned"],
            selection=None if selection is None else ModelSelection.from_dict(selection),
            n_blocks=meta.get("n_blocks"),
            candidates=tuple(dict(row) for row in meta.get("candidates", ())),
            temperature=float(meta.get("temperature", 1.0)),
        )

    def _codes(self, C_new: Tensor | NDArray[np.floating]) -> Tensor:
        C = unit_rows("C_new", C_new, "predict")
        check_width("C_new", C, self.representatives.codes.shape[1])
        return C


def _check_state(tensors: dict[str, Tensor], meta: dict[str, Any], k: int) -> None:
    """Raise on load if parts of the file do not fit together, not later during prediction."""
    m, d = tensors["codes"].shape
    fits = {
        "potential": tensors["potential"].shape == (m,),
        "code_labels": tensors["code_labels"].shape == (m,) and _within(tensors["code_labels"], k),
        "labels": tensors["labels"].ndim == 1 and _within(tensors["labels"], k),
        "merge_tree": tensors["merge_tree"].shape == (max(0, k - 1), 4),
        "eta": _is_positive(meta["eta"]),
        "temperature": _is_positive(meta.get("temperature", 1.0)),
        "codes": d >= 1 and tensors["codes"].is_floating_point(),
        "absolute": isinstance(meta["absolute"], bool),
    }
    for name, good in fits.items():
        if not good:
            raise ValueError(f"{name!r} of the labels does not fit {k} clusters")


def _within(labels: Tensor, k: int) -> bool:
    whole = not labels.is_floating_point() and labels.numel() > 0
    return bool(whole and int(labels.min()) >= 0 and int(labels.max()) < k)


def _is_positive(value: Any) -> bool:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return number and 0 < value < float("inf")
