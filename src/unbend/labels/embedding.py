"""Three ways from codes to labelled representatives: dense, blocks, landmarks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from unbend.labels.assign import assign
from unbend.labels.kernel import BlockKernel, DenseKernel
from unbend.labels.landmarks import choose_landmarks, landmark_spectrum
from unbend.labels.prediction import Representatives
from unbend.labels.spectral import spectral_embedding
from unbend.progress import Progress, silent

__all__ = ["LABEL_METHODS", "Embedding", "Settings", "choose_method", "embed_codes"]

LABEL_METHODS = ("dense", "blocks", "landmarks")

# The stored kernel of 10,000 samples takes 200 MB in float32. Above that, landmarks: 20,000 samples
# in 26 clusters take them 2 s, stored blocks 9 s and recomputed blocks 23 s, for the same accuracy.
_DENSE_UP_TO = 10_000
# Samples times clusters: an eigenvector of each cluster takes about twenty passes over n² entries,
# two minutes of a core for 10,000 samples in 200 clusters.
_LANDMARKS_FROM = 1_000_000

# More representatives than this make prediction slower, not better.
_MAX_REPRESENTATIVES = 2048
_MIN_PER_CLUSTER = 16


@dataclass(frozen=True)
class Settings:
    """Settings of all three methods."""

    eta: float
    eps_sq: float
    absolute: bool
    tol: float
    seed: int
    n_landmarks: int | None
    progress: Progress = silent


def choose_method(method: str, n: int, k: int = 1) -> str:
    """Resolve ``"auto"`` by the number of samples and of clusters."""
    if method != "auto":
        return method
    return "dense" if n <= _DENSE_UP_TO and n * k < _LANDMARKS_FROM else "landmarks"


@dataclass(frozen=True)
class Embedding:
    """Leading eigenpairs of Γ at samples or landmarks, which :meth:`cut` clusters.

    ``represent`` turns labels of the nodes, ``represent_samples`` labels of all samples, into
    labelled representatives and the labels of all samples, where these are known.
    """

    values: Tensor
    vectors: Tensor
    nodes: Tensor  # codes of the samples or landmarks
    represent: Callable[[Tensor, int], tuple[Representatives, Tensor | None]]
    represent_samples: Callable[[Tensor, int], tuple[Representatives, Tensor | None]]

    def cut(self, k: int, n_blocks: int | None = None) -> tuple[Representatives, Tensor | None]:
        """Representatives labelled with k clusters, and the spectral labels of the samples.

        The landmark method labels only landmarks, so its spectral labels are None. ``n_blocks``
        is passed to :func:`~unbend.labels.assign.assign`.
        """
        return self.represent(assign(self.vectors, k, n_blocks), k)


def embed_codes(method: str, C: Tensor, p: int, settings: Settings) -> Embedding:
    """The p leading eigenvectors of Γ and p + 1 eigenvalues, by one of the methods."""
    if method == "landmarks":
        return _landmark_path(C, p, settings)
    return _exact_path(method, C, p, settings)


def _exact_path(method: str, C: Tensor, p: int, settings: Settings) -> Embedding:
    """The whole Γ, stored (dense) or applied in blocks."""
    eta, absolute = settings.eta, settings.absolute
    kernel = (DenseKernel if method == "dense" else BlockKernel)(C, eta, absolute)
    membership, spectrum = spectral_embedding(
        C,
        kernel,
        p,
        eta=eta,
        absolute=absolute,
        tol=settings.tol,
        seed=settings.seed,
        progress=settings.progress,
    )
    potential = membership.scaling.potential(eta)

    def represent(labels: Tensor, k: int) -> tuple[Representatives, Tensor]:
        keep, share = _stratified(labels, k, settings.seed)
        raised = potential[keep] + eta * share.to(C).log()
        return Representatives(C[keep], raised, labels[keep], k, eta, absolute), labels

    return Embedding(spectrum.values, spectrum.vectors, C, represent, represent)


def _stratified(labels: Tensor, k: int, seed: int) -> tuple[Tensor, Tensor]:
    """Random samples of each cluster, and how many samples each of them stands for.

    Takes all samples if there are few. Otherwise the number is proportional to the size of the
    cluster, and at least 16.
    """
    n = labels.shape[0]
    counts = torch.bincount(labels, minlength=k).cpu()
    if n <= _MAX_REPRESENTATIVES:
        return torch.arange(n, device=labels.device), torch.ones(n)
    quota = (counts * _MAX_REPRESENTATIVES // n).clamp_min(_MIN_PER_CLUSTER)
    quota = torch.minimum(quota, counts)
    order = torch.randperm(n, generator=torch.Generator().manual_seed(seed + 2))
    order = order[labels.cpu()[order].argsort(stable=True)]  # by cluster, random within
    first = counts.cumsum(0) - counts
    keep = torch.cat(
        [order[f : f + q] for f, q in zip(first.tolist(), quota.tolist(), strict=True)]
    )
    share = (counts / quota.clamp_min(1)).repeat_interleave(quota)
    return keep.to(labels.device), share


def _landmark_path(C: Tensor, p: int, settings: Settings) -> Embedding:
    """Approximate Γ by landmarks; samples get their labels from their membership."""
    n, eta, absolute = C.shape[0], settings.eta, settings.absolute
    m = settings.n_landmarks or min(n, max(1024, 5 * p))
    landmarks = choose_landmarks(C, m, settings.seed, absolute, settings.progress)
    if landmarks.codes.shape[0] < p:
        raise ValueError(
            f"`C` has only {landmarks.codes.shape[0]} distinct codes among {m} landmarks, fewer "
            f"than `n_clusters` = {p}; ask for fewer clusters or raise `n_landmarks`"
        )
    potential = landmarks.potential(eta, absolute, settings.tol)
    spectrum = landmark_spectrum(
        C,
        landmarks,
        potential,
        p,
        eta=eta,
        absolute=absolute,
        seed=settings.seed,
        progress=settings.progress,
    )

    def represent(labels: Tensor, k: int) -> tuple[Representatives, None]:
        return Representatives(landmarks.codes, potential, labels, k, eta, absolute), None

    def represent_samples(labels: Tensor, k: int) -> tuple[Representatives, Tensor]:
        keep, share = _stratified(labels, k, settings.seed)
        # The potential that makes the sample's membership of the landmarks sum to one.
        similarity = C[keep] @ landmarks.codes.T
        similarity = similarity.abs_() if absolute else similarity
        own = -eta * ((similarity + potential) / eta).logsumexp(1)
        raised = own + eta * share.to(C).log()
        return Representatives(C[keep], raised, labels[keep], k, eta, absolute), labels

    return Embedding(
        spectrum.values, spectrum.vectors, landmarks.codes, represent, represent_samples
    )
