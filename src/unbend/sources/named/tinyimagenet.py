"""TinyImageNet-200: JPEG files in a zip archive or in its unpacked folder."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from unbend.disk import atomic_directory, atomic_open, atomic_write
from unbend.pixels.decode import decode
from unbend.progress import Tick
from unbend.sources.named.archives import Archive, DataStore
from unbend.sources.named.spec import Labelled, Recipe

__all__ = ["TINYIMAGENET200", "TinyFiles"]

_SIDE = 64
_CLASSES = "classes.json"


@dataclass(frozen=True)
class TinyFiles:
    """The archive, the folder for its decoded pixels, and how many images each split has."""

    archive: Archive
    folder: str
    decoded: str
    n_classes: int
    counts: dict[str, int]

    def load(self, store: DataStore, split: str) -> Labelled:
        """Images (n, 3, 64, 64), memory-mapped, and labels; decoded on first use.

        The official test split has no labels. As in the paper, ``test`` is the official val split.
        """
        folder = self._decode(store)
        X = np.load(folder / f"{split}_X.npy", mmap_mode="r", allow_pickle=False)
        y = np.load(folder / f"{split}_y.npy", allow_pickle=False)
        return X, y

    def classes(self, store: DataStore) -> list[str]:
        """The first name of each class."""
        words: list[str] = json.loads((self._decode(store) / _CLASSES).read_text())
        return words

    def _decode(self, store: DataStore) -> Path:
        target = store.directory / self.decoded
        if not target.is_dir():
            unpacked = store.find(self.folder)
            if unpacked is not None:
                self._write(target, store, _Reader(lambda name: (unpacked / name).read_bytes()))
            else:
                with _open_zip(store.fetch(self.archive)) as packed:
                    reader = _Reader(lambda name: packed.read(f"{self.folder}/{name}"))
                    self._write(target, store, reader)
        return target

    def _write(self, target: Path, store: DataStore, reader: _Reader) -> None:
        ids = sorted(reader.text("wnids.txt").split())
        if len(ids) != self.n_classes:
            raise ValueError(f"wnids.txt must name {self.n_classes} classes, got {len(ids)}")
        words = dict(line.split("\t", 1) for line in reader.text("words.txt").splitlines() if line)
        names = [words.get(each, each).split(",")[0] for each in ids]
        with atomic_directory(target) as new:
            for split, files in (("train", _train(reader, ids)), ("test", _val(reader, ids))):
                if len(files) != self.counts[split]:
                    raise ValueError(
                        f"{self.archive.file}: {split} must have {self.counts[split]} images, "
                        f"got {len(files)}; get it again"
                    )
                _decode_split(new, split, files, reader, store)
            atomic_write(new / _CLASSES, json.dumps(names))


@dataclass(frozen=True)
class _Reader:
    """Read files by their names in the archive, unpacked or not."""

    read: Callable[[str], bytes]

    def bytes(self, name: str) -> bytes:
        try:
            return self.read(name)
        except (KeyError, FileNotFoundError, zipfile.BadZipFile) as error:
            raise ValueError(
                f"tiny-imagenet-200: cannot read {name} ({error}); get it again"
            ) from (error)

    def text(self, name: str) -> str:
        return self.bytes(name).decode()


def _train(reader: _Reader, ids: list[str]) -> list[tuple[str, int]]:
    """Files and labels, from the list of files and bounding boxes of each class."""
    return [
        (f"train/{each}/images/{line.split()[0]}", label)
        for label, each in enumerate(ids)
        for line in reader.text(f"train/{each}/{each}_boxes.txt").splitlines()
        if line.strip()
    ]


def _val(reader: _Reader, ids: list[str]) -> list[tuple[str, int]]:
    label = {each: i for i, each in enumerate(ids)}
    rows = [line.split("\t") for line in reader.text("val/val_annotations.txt").splitlines()]
    return [(f"val/images/{row[0]}", label[row[1]]) for row in rows if len(row) > 1]


def _decode_split(
    new: Path, split: str, files: list[tuple[str, int]], reader: _Reader, store: DataStore
) -> None:
    with atomic_open(new / f"{split}_X.npy") as out:
        header = {"descr": "|u1", "fortran_order": False, "shape": (len(files), 3, _SIDE, _SIDE)}
        np.lib.format.write_array_header_1_0(out, header)
        for done, (name, _) in enumerate(files, 1):
            try:
                out.write(decode(io.BytesIO(reader.bytes(name)), _SIDE))
            except Exception as error:  # Pillow raises almost anything on bad content
                raise ValueError(f"tiny-imagenet-200: {name} is damaged ({error})") from error
            if done % 500 == 0 or done == len(files):
                store.progress(Tick(f"decode {split}", done, len(files)))
    with atomic_open(new / f"{split}_y.npy") as out:
        np.save(out, np.array([label for _, label in files], np.int64))


def _open_zip(path: Path) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(path)
    except zipfile.BadZipFile as error:
        raise ValueError(f"{str(path)!r} is damaged ({error}); get it again") from error


TINY_FILES = TinyFiles(
    archive=Archive(
        "tiny-imagenet-200.zip",
        "http://cs231n.stanford.edu/tiny-imagenet-200.zip",
        "90528d7ca1a48142e341f4ef8d21d0de",
    ),
    folder="tiny-imagenet-200",
    decoded="tiny-imagenet-200-pixels",
    n_classes=200,
    counts={"train": 100_000, "test": 10_000},
)

TINYIMAGENET200 = Recipe(
    lambda store, split: TINY_FILES.load(store, split), lambda store: TINY_FILES.classes(store)
)
