"""Data sets of a benchmark: samples on disk for the cells, true labels for scoring."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from unbend.disk import hash_array, hash_values
from unbend.encoding import embed_images, open_cache
from unbend.networks import load_encoder
from unbend.progress import Progress, silent
from unbend.sources import open_source

__all__ = ["Dataset", "open_dataset"]


@dataclass(frozen=True)
class Dataset:
    """Samples in a .npy file, their name, and their true labels."""

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

    def without_file(self) -> Dataset:
        """A copy without the path of the scratch file, which is deleted."""
        return replace(self, path=Path())


def open_dataset(
    text: str, scratch: Path, encoder: str | None, progress: Progress | None
) -> Dataset:
    """Open ``SPEC`` or ``SPEC@LABELS`` and write the samples to a file for the cells."""
    spec, _, labels = text.partition("@")
    listen = progress or silent
    source = open_source(spec, labels=labels or None, progress=listen)
    if source.y is None:
        raise ValueError(
            f"data set {text!r} brings no true labels to score with; write it as {spec}@LABELS"
        )
    X, name = source.X, source.name
    fingerprint = hash_array(X)
    if encoder is not None and source.kind == "images":
        X = embed_images(load_encoder(encoder), X, cache=open_cache(), progress=listen)
        fingerprint, name = hash_array(X), f"{name} ({encoder})"
    path = scratch / f"{hash_values(fingerprint)}.npy"
    np.save(path, X)
    # What is kept are scores, which depend on the true labels too.
    fingerprint = hash_values(fingerprint, hash_array(source.y))
    return Dataset(name, source.split, path, fingerprint, tuple(X.shape), source.y)
