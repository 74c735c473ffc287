"""The index of a pixel cache: which file is stored in which row."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np

from unbend.disk import Cache
from unbend.pixels.decode import HASH

__all__ = ["UNKNOWN", "FileRecord", "Index", "Stamp", "stamp_of"]

Stamp = tuple[int, int, int]
UNKNOWN: Stamp = (-1, -1, -1)
_NAME = "index"


class FileRecord(NamedTuple):
    """One file: its size and times, the hash of its content, and the row of its pixels.

    ``stamp`` is (size, mtime, ctime) in bytes and nanoseconds; ctime reveals a file that was
    replaced by another of the same size and mtime.
    ``row`` is -1 for a file without pixels; ``reason`` then says why.
    """

    name: str
    stamp: Stamp
    content: bytes
    digest: bytes
    row: int
    reason: str


@dataclass(frozen=True)
class Index:
    """All records, and the token and stamp of the file with their pixels."""

    token: str = ""
    stamp: Stamp = UNKNOWN
    records: list[FileRecord] = field(default_factory=list)

    @property
    def n_rows(self) -> int:
        """Number of rows up to the last one that a record refers to."""
        return max((record.row for record in self.records), default=-1) + 1

    def write(self, cache: Cache) -> None:
        """Replace the old index atomically."""
        many = self.records
        arrays = {
            # File names cannot contain a zero byte, so it separates them without escaping.
            "names": _join([os.fsencode(r.name) for r in many]),
            "reasons": _join([r.reason.encode(errors="replace") for r in many]),
            "stamps": np.array([r.stamp for r in many], dtype=np.int64).reshape(-1, 3),
            "rows": np.array([r.row for r in many], dtype=np.int64),
            "content": _stack([r.content for r in many]),
            "digest": _stack([r.digest for r in many]),
        }
        cache.put(_NAME, arrays, {"token": self.token, "stamp": self.stamp})

    @classmethod
    def read(cls, cache: Cache) -> Index:
        """Read an index; return an empty one if it is missing or unusable."""
        entry = cache.get(_NAME)
        if entry is None:
            return cls()
        arrays = entry.arrays
        names = [os.fsdecode(name) for name in _split(arrays["names"])]
        reasons = [reason.decode() for reason in _split(arrays["reasons"])]
        stamps = [(a, b, c) for a, b, c in arrays["stamps"].tolist()]
        content = [b"" if each == bytes(HASH) else each for each in _rows(arrays["content"])]
        digest, rows = _rows(arrays["digest"]), arrays["rows"].tolist()
        fields = zip(names, stamps, content, digest, rows, reasons, strict=True)
        size, changed, created = entry.values["stamp"]
        return cls(
            entry.values["token"], (size, changed, created), [FileRecord(*f) for f in fields]
        )


def stamp_of(path: str | Path) -> Stamp:
    """Size and times of a file."""
    try:
        status = os.stat(path)
    except OSError:
        return UNKNOWN
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _join(parts: list[bytes]) -> np.ndarray:
    return np.frombuffer(b"".join(part + b"\0" for part in parts), dtype=np.uint8)


def _split(joined: np.ndarray) -> list[bytes]:
    return joined.tobytes().split(b"\0")[:-1]


def _rows(stacked: np.ndarray) -> list[bytes]:
    blob = stacked.tobytes()
    return [blob[start : start + HASH] for start in range(0, len(blob), HASH)]


def _stack(hashes: list[bytes]) -> np.ndarray:
    joined = b"".join(h.ljust(HASH, b"\0") for h in hashes)
    return np.frombuffer(joined, dtype=np.uint8).reshape(-1, HASH)
