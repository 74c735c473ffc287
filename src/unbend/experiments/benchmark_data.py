"""Data sets of a benchmark: samples on disk for the cells, true labels for the scores."""

from __future__ import annotations

import hashlib
import io
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unbend.data import open_source
from unbend.progress import Progress, silent
from unbend.runs import atomic_write

__all__ = ["Samples", "open_samples"]


@dataclass(frozen=True)
class Samples:
    """Samples in a .npy file, what they are called, and their true labels."""

    name: str
    split: str
    path: Path
    fingerprint: str
    shape: tuple[int, ...]
    y: NDArray[np.int64]

    @property
    def n_classes(self) -> int:
        """Number of true classes."""
        return len(np.unique(self.y))

    def describe(self) -> str:
        """For a caption."""
        return (
            f"{self.name}: n = {len(self.y)}, split = {self.split}, {self.n_classes} classes, "
            f"samples of shape {' × '.join(map(str, self.shape[1:]))}"
        )

    def title(self) -> str:
        """For a picture."""
        return f"{self.name}, n = {len(self.y)}, split = {self.split}, {self.n_classes} classes"

    def without_samples(self) -> Samples:
        """The same after the scratch file is gone."""
        return replace(self, path=Path())


def open_samples(
    text: str, scratch: Path, out: Path, encoder: str | None, progress: Progress | None
) -> Samples:
    """Open ``SPEC`` or ``SPEC@LABELS`` and put what the cells read into a file."""
    spec, _, labels = text.partition("@")
    listen = progress or silent
    source = open_source(spec, labels=labels or None, progress=listen)
    if source.y is None:
        raise ValueError(
            f"data set {text!r} brings no true labels to score with; write it as {spec}@LABELS"
        )
    X, name = source.X, source.name
    fingerprint = _fingerprint(X)
    if encoder is not None and source.kind == "images":
        X, mark = _embed(X, fingerprint, encoder, out / "embeddings", listen)
        fingerprint, name = f"{fingerprint}-{mark}", f"{name} ({encoder})"
    path = scratch / f"{hashlib.sha256(fingerprint.encode()).hexdigest()[:16]}.npy"
    np.save(path, X)
    return Samples(name, source.split, path, fingerprint, tuple(X.shape), source.y)


def _fingerprint(X: NDArray[Any]) -> str:
    digest = hashlib.sha256(f"{X.shape}{X.dtype.str}".encode())
    for start in range(0, len(X), 4096):
        digest.update(np.ascontiguousarray(X[start : start + 4096]).tobytes())
    return digest.hexdigest()[:16]


def _embed(
    X: NDArray[Any], fingerprint: str, name: str, folder: Path, progress: Progress
) -> tuple[NDArray[Any], str]:
    """Vectors of images, computed once and kept beside the cells."""
    from unbend.networks import load_encoder

    encoder = load_encoder(name)
    mark = encoder.fingerprint[:16]
    place = folder / f"{fingerprint}-{mark}.npy"
    if place.exists():
        kept: NDArray[Any] = np.load(place, allow_pickle=False)
        return kept, mark
    Z = encoder.encode(X, progress=progress)
    folder.mkdir(parents=True, exist_ok=True)
    buffer = io.BytesIO()
    np.save(buffer, Z)
    atomic_write(place, buffer.getvalue())
    return Z, mark
