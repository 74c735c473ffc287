"""Three ways from codes to labelled representatives: dense, blocks, landmarks."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from unbend.labels.assign import assign
from unbend.labels.kernel import BlockKernel, DenseKernel
from unbend.labels.landmarks import choose_landmarks, landmark_spectrum
from unbend.labels.prediction import Representatives
from unbend.labels.spectral import embed
from unbend.progress import Progress, silent

__all__ = ["METHODS", "Settings", "choose_method", "run_path"]

METHODS = ("dense", "blocks", "landmarks")

# Up to 10,000 samples the stored kernel takes at most 200 MB in float32. Recomputing it in blocks
# costs about twenty passes of n² and stays within a minute or two up to 20,000.
_DENSE_UP_TO = 10_000
_BLOCKS_UP_TO = 20_000

# More representatives than this make prediction slower, not better.
_MAX_REPRESENTATIVES = 2048
_MIN_PER_CLUSTER = 16


@dataclass(frozen=True)
class Settings:
    """What all paths share."""

    eta: float
    eps_sq: float
    absolute: bool
    tol: float
    seed: int
    n_landmarks: int | None
    progress: Progress = silent


def choose_method(method: str, n: int) -> str:
    """Resolve ``"auto"`` by the number of samples."""
    if method != "auto":
        return method
    if n <= _DENSE_UP_TO:
        return "dense"
    return "blocks" if n <= _BLOCKS_UP_TO else "landmarks"


def run_path(
    method: str, C: Tensor, k: int, settings: Settings, n_blocks: int | None = None
) -> tuple[Representatives, Tensor, Tensor | None]:
    """Labelled representatives, leading eigenvalues, and spectral labels of the samples.

    The landmark path labels landmarks only and returns None for the last. ``n_blocks`` is that
    of :func:`~unbend.labels.assign.assign`.
    """
    if method == "landmarks":
        return (*_landmark_path(C, k, settings, n_blocks or k), None)
    return _exact_path(method, C, k, settings, n_blocks or k)


def _exact_path(
    method: str, C: Tensor, k: int, settings: Settings, n_blocks: int
) -> tuple[Representatives, Tensor, Tensor]:
    """Spectral clustering of the whole Γ, stored (dense) or applied in blocks."""
    eta, absolute = settings.eta, settings.absolute
    kernel = (DenseKernel if method == "dense" else BlockKernel)(C, eta, absolute)
    membership, spectrum = embed(
        C,
        kernel,
        n_blocks,
        eta=eta,
        absolute=absolute,
        tol=settings.tol,
        seed=settings.seed,
        progress=settings.progress,
    )
    labels = assign(spectrum.vectors, k, n_blocks)
    keep, share = _stratified(labels, k, settings.seed)
    potential = membership.scaling.potential(eta)[keep] + eta * share.to(C).log()
    reps = Representatives(C[keep], potential, labels[keep], k, eta, absolute)
    return reps, spectrum.values, labels


def _stratified(labels: Tensor, k: int, seed: int) -> tuple[Tensor, Tensor]:
    """Random samples of each cluster, and how many samples each of them stands for.

    All samples while they are few. Otherwise a number proportional to the size of the cluster,
    and not less than 16 of it.
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


def _landmark_path(
    C: Tensor, k: int, settings: Settings, n_blocks: int
) -> tuple[Representatives, Tensor]:
    """Spectral clustering of landmarks; samples follow by their membership."""
    n, eta, absolute = C.shape[0], settings.eta, settings.absolute
    m = settings.n_landmarks or min(n, max(1024, 5 * k))
    landmarks = choose_landmarks(C, m, settings.seed, absolute, settings.progress)
    if landmarks.codes.shape[0] < k:
        raise ValueError(
            f"`C` has only {landmarks.codes.shape[0]} distinct codes among {m} landmarks, fewer "
            f"than `n_clusters` = {k}; ask for fewer clusters or raise `n_landmarks`"
        )
    potential = landmarks.potential(eta, absolute, settings.tol)
    spectrum = landmark_spectrum(
        C,
        landmarks,
        potential,
        n_blocks,
        eta=eta,
        absolute=absolute,
        seed=settings.seed,
        progress=settings.progress,
    )
    labels = assign(spectrum.vectors, k, n_blocks)
    reps = Representatives(landmarks.codes, potential, labels, k, eta, absolute)
    return reps, spectrum.values
