"""Cache decoded images on disk: one memory-mapped uint8 array per folder and size.

A cache is a directory with an index and the ``pixels-TOKEN.bin`` file it refers to. A row is valid
only if the index lists it, and the index is replaced atomically: after a kill, the next process
finds either the old state or the new one. A lock makes a second process wait and then use what the
first has decoded.
"""

from __future__ import annotations

import errno
import os
import secrets
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

from unbend.disk import Cache, hash_array, hash_values, locked
from unbend.disk.cache import REMEDY, keep_latest
from unbend.pixels.decode import DECODING, HASH, Decoded, content_hash
from unbend.pixels.folders import Broken
from unbend.pixels.pixel_index import UNKNOWN, FileRecord, Index, stamp_of
from unbend.pixels.workers import decode_all
from unbend.progress import Progress, Tick, silent

__all__ = ["Pixels", "open_pixels"]

CHECKPOINT_SECONDS = 30.0
TICK_SECONDS = 0.2
_MAX_CACHES = 100  # caches (folder and size) kept on disk
_TO_DECODE = -2  # marks a row that has to be decoded
_CANNOT_WRITE = {
    errno.ENOSPC,
    errno.ENOENT,
    errno.EDQUOT,
    errno.EROFS,
    errno.EACCES,
    errno.EPERM,
    errno.ENOTDIR,
}


@dataclass(frozen=True)
class Pixels:
    """Images (n, 3, size, size), the positions of their files in the list, and broken files."""

    X: NDArray[np.uint8]
    kept: list[int]
    hashes: list[str]
    broken: list[Broken]
    decoded: int


def open_pixels(
    root: Path,
    names: Sequence[str],
    size: int,
    cache_dir: Path,
    *,
    workers: int | None = None,
    progress: Progress = silent,
    key: str = "",
) -> Pixels:
    """Pixels of image files, decoded at most once.

    A known file with unchanged size and times is not opened. A renamed or touched file is hashed,
    and decoded only if its content is new.

    Parameters
    ----------
    root, names
        The files ``root / name``; rows are in the same order.
    size : int
        Side of the square images.
    key : str
        Distinguishes caches with the same root (a list of paths and its parent folder).
    """
    home = _home(root, size, cache_dir, key)
    try:
        home.mkdir(parents=True, exist_ok=True)
        os.utime(home)
        keep_latest(home.parent.iterdir(), _MAX_CACHES)
        with locked(home / "lock"):
            return _open(home, root, names, size, workers, progress)
    except OSError as error:
        if error.errno not in _CANNOT_WRITE:
            raise
        raise OSError(
            f"cannot cache decoded images in {str(home)!r} ({error.strerror}); {REMEDY}"
        ) from error


def _home(root: Path, size: int, cache_dir: Path, key: str) -> Path:
    digest = hash_values(os.path.realpath(root), key)
    return cache_dir / "pixels" / f"{digest}-{size}px-v{DECODING}"


def _open(
    home: Path,
    root: Path,
    names: Sequence[str],
    size: int,
    workers: int | None,
    progress: Progress,
) -> Pixels:
    cache = Cache(home)
    stored = Index.read(cache)
    old = _intact(stored, home, size)
    known = _recognise(old, root, names)
    fresh = [i for i, record in enumerate(known) if record.row == _TO_DECODE]
    rows = [record.row for record in known if record.row >= 0]
    if fresh or rows != list(range(old.n_rows)):
        writer = _CacheWriter(home, size, old, progress, len(fresh))
        with closing(
            decode_all([os.path.join(root, names[i]) for i in fresh], size, workers)
        ) as found:
            known = writer.run(known, found)
        token = writer.token
    else:
        token = old.token
        if Index(token, old.stamp, known) != stored:
            Index(token, old.stamp, known).write(cache)
    _remove_old_files(home, token)
    good = [i for i, record in enumerate(known) if record.row >= 0]
    return Pixels(
        X=_map(home, token, len(good), size),
        kept=good,
        hashes=[known[i].digest.hex() for i in good],
        broken=[Broken(record.name, record.reason) for record in known if record.row < 0],
        decoded=len(fresh),
    )


def _intact(index: Index, home: Path, size: int) -> Index:
    """The records whose pixels are still valid; hashes files that were touched."""
    path = _file(home, index.token)
    stamp = stamp_of(path)
    if stamp == index.stamp:
        return index
    whole = max(stamp[0], 0) // (3 * size * size)
    pixels = _map(home, index.token, whole, size)
    good = [
        r
        for r in index.records
        if r.row < 0 or (r.row < whole and hash_array(pixels[r.row]) == r.digest.hex())
    ]
    return Index(index.token, stamp, good)


def _recognise(old: Index, root: Path, names: Sequence[str]) -> list[FileRecord]:
    """The current record of each file; its row says whether it must be decoded."""
    by_name = {record.name: record for record in old.records}
    by_content = {record.content: record for record in old.records if record.content}
    known = []
    for i, name in enumerate(names):
        # A list may name a file twice: prefer the record at the same position.
        here = old.records[i] if i < len(old.records) else None
        record = here if here is not None and here.name == name else by_name.get(name)
        path = os.path.join(root, name)  # pathlib is too slow here
        stamp = stamp_of(path)
        if record is None or record.stamp != stamp:
            record = by_content.get(content_hash(path)) if by_content else None
            record = record and record._replace(name=name, stamp=stamp)
        if record is None or stamp == UNKNOWN:
            record = FileRecord(name, stamp, b"", b"", _TO_DECODE, "")
        known.append(record)
    return known


class _CacheWriter:
    """Write a new file of pixels: copy known rows and decode the others."""

    def __init__(self, home: Path, size: int, old: Index, progress: Progress, fresh: int) -> None:
        self.home, self.size, self.old = home, size, old
        self.progress, self.fresh, self.done = progress, fresh, 0
        self.token = secrets.token_hex(8)
        self.rows = 0
        self.lasting: list[FileRecord] = []
        self.start = self.saved = self.reported = time.monotonic()

    def run(self, known: list[FileRecord], found: Iterator[Decoded]) -> list[FileRecord]:
        """Fill the file in the order of the records; return them with their rows."""
        pixels = _map(self.home, self.old.token, self.old.n_rows, self.size)
        out = []
        with open(_file(self.home, self.token), "wb", buffering=1 << 20) as file:
            for record in known:
                if record.row == _TO_DECODE:
                    out.append(self._decoded(file, record, next(found)))
                    self._report_progress()
                    self._checkpoint(file)
                else:
                    row = pixels[record.row].tobytes() if record.row >= 0 else None
                    out.append(self._add(file, record, row))
            self._write_index(file)
        return out

    def _decoded(self, file: IO[bytes], record: FileRecord, found: Decoded) -> FileRecord:
        digest = bytes(HASH)
        if found.pixels is not None:
            square = np.frombuffer(found.pixels, np.uint8).reshape(3, self.size, self.size)
            digest = bytes.fromhex(hash_array(square))
        record = record._replace(content=found.content, digest=digest, reason=found.reason)
        return self._add(file, record, found.pixels, found.lasting)

    def _add(
        self, file: IO[bytes], record: FileRecord, pixels: bytes | None, lasting: bool = True
    ) -> FileRecord:
        record = record._replace(row=-1)
        if pixels is not None:
            file.write(pixels)
            record = record._replace(row=self.rows)
            self.rows += 1
        if lasting:  # temporary failures, such as a missing permission, are retried next time
            self.lasting.append(record)
        return record

    def _report_progress(self) -> None:
        self.done += 1
        now = time.monotonic()
        if now - self.reported >= TICK_SECONDS or self.done == self.fresh:
            self.reported = now
            rate = self.done / max(now - self.start, 1e-9)
            self.progress(Tick("decode", self.done, self.fresh, {"images/s": rate}))

    def _checkpoint(self, file: IO[bytes]) -> None:
        """Save what a long run has decoded so far, unless the old index has more rows."""
        if time.monotonic() - self.saved < CHECKPOINT_SECONDS:
            return
        self.saved = time.monotonic()
        if len(self.lasting) > len(self.old.records):
            self._write_index(file)

    def _write_index(self, file: IO[bytes]) -> None:
        """Write an index of the rows so far, after flushing them to disk."""
        file.flush()
        os.fsync(file.fileno())
        stamp = stamp_of(_file(self.home, self.token))
        Index(self.token, stamp, self.lasting).write(Cache(self.home))


def _map(home: Path, token: str, n: int, size: int) -> NDArray[np.uint8]:
    if n == 0:  # an empty file cannot be mapped
        return np.zeros((0, 3, size, size), np.uint8)
    return np.memmap(_file(home, token), dtype=np.uint8, mode="r", shape=(n, 3, size, size))


def _file(home: Path, token: str) -> Path:
    return home / f"pixels-{token}.bin"


def _remove_old_files(home: Path, token: str) -> None:
    """Remove files left by earlier states and killed processes (we hold the lock)."""
    for path in home.iterdir():
        old = path.name.startswith("pixels-") and path != _file(home, token)
        if old or path.name.endswith(".tmp"):
            with suppress(OSError):  # still open elsewhere, on some systems
                path.unlink()
