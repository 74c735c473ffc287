"""STL-10: 5,000 + 8,000 labelled and 100,000 unlabelled images of 96 x 96 pixels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from unbend.sources.named.archives import Archive, DataStore
from unbend.sources.named.spec import Labelled, Recipe

__all__ = ["STL10", "StlFiles"]

_SIDE = 96


@dataclass(frozen=True)
class StlFiles:
    """The binary files with their md5s, and how many images each split has."""

    archive: Archive
    folder: str
    md5: Mapping[str, str]
    counts: Mapping[str, int]

    def load(self, store: DataStore, split: str) -> Labelled:
        """Images (n, 3, 96, 96), memory-mapped, and labels from 0; -1 means unlabelled."""
        wanted = [f"{split}_X.bin"] + ([] if split == "unlabeled" else [f"{split}_y.bin"])
        members = {name: self.md5[name] for name in wanted}
        there = store.find(self.folder)
        paths = store.unpack(self.archive, self.folder, members if there else self.md5)
        n = self.counts[split]
        pixels = paths[wanted[0]]
        labels = np.fromfile(paths[wanted[1]], np.uint8) if len(wanted) > 1 else None
        length = pixels.stat().st_size
        if length != n * 3 * _SIDE * _SIDE or (labels is not None and len(labels) != n):
            raise ValueError(f"{str(pixels)!r} must hold {n} images, got {length} bytes")
        X = np.memmap(pixels, np.uint8, "r", shape=(n, 3, _SIDE, _SIDE))
        y = labels.astype(np.int64) - 1 if labels is not None else np.full(n, -1)
        return X.transpose(0, 1, 3, 2), y  # the files store images column by column

    def classes(self, store: DataStore) -> list[str]:
        """The names of the classes."""
        name = "class_names.txt"
        return store.unpack(self.archive, self.folder, {name: ""})[name].read_text().split()


STL10_FILES = StlFiles(
    archive=Archive(
        "stl10_binary.tar.gz",
        "http://ai.stanford.edu/~acoates/stl10/stl10_binary.tar.gz",
        "91f7769df0f17e558f3565bffb0c7dfb",
    ),
    folder="stl10_binary",
    md5={
        "train_X.bin": "918c2871b30a85fa023e0c44e0bee87f",
        "train_y.bin": "5a34089d4802c674881badbb80307741",
        "test_X.bin": "7f263ba9f9e0b06b93213547f721ac82",
        "test_y.bin": "36f9794fa4beb8a2c72628de14fa638e",
        "unlabeled_X.bin": "5242ba1fed5e4be9e1e742405eb56ca4",
        "class_names.txt": "",
    },
    counts={"train": 5_000, "test": 8_000, "unlabeled": 100_000},
)

STL10 = Recipe(
    lambda store, split: STL10_FILES.load(store, split),
    lambda store: STL10_FILES.classes(store),
    parts=("train", "test", "unlabeled"),
)
