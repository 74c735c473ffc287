"""MNIST and Fashion-MNIST: idx files, plain or compressed with gzip."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unbend.disk import hash_bytes
from unbend.sources.named.archives import Archive, DataStore, read_gz
from unbend.sources.named.spec import Labelled, Recipe

__all__ = ["FASHION_MNIST", "MNIST", "IdxFiles", "read_idx"]

_FILES = {
    "train": ("train-images-idx3-ubyte", "train-labels-idx1-ubyte"),
    "test": ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"),
}
COUNTS = {"train": 60_000, "test": 10_000}


@dataclass(frozen=True)
class IdxFiles:
    """Four idx files: folders to search, download URL, and md5s of the decompressed content."""

    folders: tuple[str, ...]
    url: str
    md5: Mapping[str, str]
    counts: Mapping[str, int]

    def load(self, store: DataStore, split: str) -> Labelled:
        """Images (n, h, w) and labels of a split."""
        images, labels = (self._read(store, name) for name in _FILES[split])
        n = self.counts[split]
        if images.ndim != 3 or labels.shape != (len(images),) or len(images) != n:
            raise ValueError(
                f"{_FILES[split][0]} must hold {n} images and as many labels, got shapes "
                f"{images.shape} and {labels.shape}; get the files again"
            )
        return images, labels.astype(np.int64)

    def _read(self, store: DataStore, name: str) -> NDArray[Any]:
        path = self._find(store, name)
        data = read_gz(path)
        found = hash_bytes(data, "md5")
        if self.md5 and found != self.md5[name]:
            raise ValueError(
                f"{str(path)!r} is damaged or another version (md5 {found} when unpacked, "
                f"expected {self.md5[name]}); delete it and get it again"
            )
        return read_idx(data, str(path))

    def _find(self, store: DataStore, name: str) -> Path:
        for folder in self.folders:
            found = store.find(f"{folder}/{name}", f"{folder}/{name}.gz")
            if found is not None:
                return found
        # Check the decompressed content: compressing again changes the md5 of the file itself.
        return store.fetch(Archive(f"{name}.gz", f"{self.url}{name}.gz", ""), self.folders[0])


def read_idx(data: bytes, what: str = "data") -> NDArray[np.uint8]:
    """Parse an idx file of bytes. Its header: two zeros, the type, the dimensions, the sizes."""
    if len(data) < 4 or data[:3] != b"\0\0\x08":
        raise ValueError(f"{what!r} is not an idx file of bytes; get it again")
    n_dims = data[3]
    start = 4 + 4 * n_dims
    shape = tuple(int(size) for size in np.frombuffer(data[4:start].ljust(start - 4, b"\0"), ">u4"))
    if len(data) < start or len(data) - start != int(np.prod(shape, dtype=np.int64)):
        raise ValueError(f"{what!r} is cut off or too long for its shape {shape}; get it again")
    return np.frombuffer(data, np.uint8, offset=start).reshape(shape)


MNIST_FILES = IdxFiles(
    folders=("mnist", "MNIST/raw"),
    url="https://ossci-datasets.s3.amazonaws.com/mnist/",
    md5={
        "train-images-idx3-ubyte": "6bbc9ace898e44ae57da46a324031adb",
        "train-labels-idx1-ubyte": "a25bea736e30d166cdddb491f175f624",
        "t10k-images-idx3-ubyte": "2646ac647ad5339dbf082846283269ea",
        "t10k-labels-idx1-ubyte": "27ae3e4e09519cfbb04c329615203637",
    },
    counts=COUNTS,
)
FASHION_FILES = IdxFiles(
    # The last folder is where Debian's package installs them. Joined to the store, an absolute
    # path stays absolute.
    folders=("fashion-mnist", "FashionMNIST/raw", "/usr/share/datasets/fashion-mnist"),
    url="http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
    md5={
        "train-images-idx3-ubyte": "f4a8712d7a061bf5bd6d2ca38dc4d50a",
        "train-labels-idx1-ubyte": "9018921c3c673c538a1fc5bad174d6f9",
        "t10k-images-idx3-ubyte": "8181f5470baa50b63fa0f6fddb340f0a",
        "t10k-labels-idx1-ubyte": "15d484375f8d13e6eb1aabb0c3f46965",
    },
    counts=COUNTS,
)
_CLOTHES = (
    "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat",
    "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot",
)  # fmt: skip

MNIST = Recipe(
    lambda store, split: MNIST_FILES.load(store, split), lambda store: [str(i) for i in range(10)]
)
FASHION_MNIST = Recipe(
    lambda store, split: FASHION_FILES.load(store, split), lambda store: list(_CLOTHES)
)
