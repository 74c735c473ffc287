"""The index of a pixel cache: which file became which row."""

from __future__ import annotations

import os
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from unbend.data.decode import DECODING, HASH
from unbend.data.places import replace_file

__all__ = ["Index", "Record", "Stamp"]

Stamp = tuple[int, int, int]


class Record(NamedTuple):
    """One file: when and how large it was seen, what it held, where its pixels are.

    ``stamp`` is (size, mtime, ctime) in bytes and nanoseconds: the time of the last change of the
    directory entry reveals a file that was replaced by an equally large and equally old one.
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
    """All records, the file with the pixels they speak of, and how many rows it holds."""

    token: str = ""
    size: int = 0
    records: list[Record] = field(default_factory=list)

    @property
    def n_rows(self) -> int:
        return sum(record.row >= 0 for record in self.records)

    def write(self, path: Path) -> None:
        """Put the index in the place of the old one, as a whole."""
        many = self.records
        arrays: dict[str, Any] = {
            "token": np.array([self.token]),
            "size": np.array([self.size, DECODING]),
            # No file name holds a zero byte, so it separates them without any escaping
            "names": _join([os.fsencode(r.name) for r in many]),
            "reasons": _join([r.reason.encode(errors="replace") for r in many]),
            "stamps": np.array([r.stamp for r in many], dtype=np.int64).reshape(-1, 3),
            "rows": np.array([r.row for r in many], dtype=np.int64),
            "content": _stack([r.content for r in many]),
            "digest": _stack([r.digest for r in many]),
        }
        with replace_file(path) as temporary, open(temporary, "wb") as file:
            np.savez(file, **arrays)

    @classmethod
    def read(cls, path: Path) -> Index:
        """Read an index; an empty one when there is none that can be used."""
        try:
            with np.load(path, allow_pickle=False) as file:
                arrays = {key: file[key] for key in file.files}
            size, decoding = (int(value) for value in arrays["size"])
            if decoding != DECODING:
                return cls()
            names = [os.fsdecode(name) for name in _split(arrays["names"])]
            reasons = [reason.decode() for reason in _split(arrays["reasons"])]
            stamps = [(a, b, c) for a, b, c in arrays["stamps"].tolist()]
            content = [b"" if each == bytes(HASH) else each for each in _rows(arrays["content"])]
            digest = _rows(arrays["digest"])
            rows: list[int] = arrays["rows"].tolist()
            fields = zip(names, stamps, content, digest, rows, reasons, strict=True)
            return cls(str(arrays["token"][0]), size, [Record(*each) for each in fields])
        except FileNotFoundError:
            return cls()
        except (OSError, ValueError, KeyError, IndexError, EOFError, zipfile.BadZipFile):
            return cls()  # damaged by something else: it is only a cache


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
