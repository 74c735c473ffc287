"""Decoded images on disk: one memory-mapped uint8 array per folder and size.

A cache is a directory with an ``index.npz`` and the ``pixels-TOKEN.bin`` it speaks of. Rows are
only valid once an index names them, and an index is replaced as a whole: whenever the process is
killed, the next one finds the old state or a new one, never a half. A lock makes a second process
wait and then use what the first has decoded.
"""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from unbend.data.decode import DECODING, HASH, Decoded, hash_file
from unbend.data.folders import Broken
from unbend.data.pixel_index import Index, Record, Stamp
from unbend.data.workers import decode_all
from unbend.progress import Progress, Tick, silent

__all__ = ["Pixels", "hash_sample", "open_pixels"]

CHECKPOINT_SECONDS = 30.0
TICK_SECONDS = 0.2
_UNKNOWN: Stamp = (-1, -1, -1)
_TO_DECODE = -2  # in the place of a row
_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOTDIR}


@dataclass(frozen=True)
class Pixels:
    """Images (n, 3, size, size), the positions of their files in the list, and all the others."""

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

    A file that was seen before with the same size and times is not opened. One with other times
    or another name is hashed, and decoded only when its content is new.

    Parameters
    ----------
    root, names
        The files ``root / name``; the rows have their order.
    size : int
        Side of the square images.
    key : str
        Tells caches of the same root apart (a list of paths and the folder around it).
    """
    home = _home(root, size, cache_dir, key)
    try:
        home.mkdir(parents=True, exist_ok=True)
        with _lock(home / "lock"):
            return _open(home, root, names, size, workers, progress)
    except OSError as error:
        if error.errno not in _NO_ROOM:
            raise
        raise OSError(
            f"cannot keep decoded images in {str(home)!r} ({error.strerror}); "
            "set UNBEND_CACHE or cache_dir to a place that can be written"
        ) from error


def hash_sample(sample: NDArray[Any]) -> str:
    """Hash of one sample's numbers, type and shape: equal pixels, equal hash, whatever the file."""
    head = f"{sample.dtype.str}{sample.shape}".encode()
    digest = hashlib.blake2b(head, digest_size=HASH)
    digest.update(np.ascontiguousarray(sample).data)
    return digest.hexdigest()


def _home(root: Path, size: int, cache_dir: Path, key: str) -> Path:
    parts = (os.fsencode(os.path.realpath(root)), os.fsencode(key))
    digest = hashlib.blake2b(b"\0".join(parts), digest_size=10).hexdigest()
    return cache_dir / "pixels" / f"{digest}-{size}px-v{DECODING}"


def _open(
    home: Path,
    root: Path,
    names: Sequence[str],
    size: int,
    workers: int | None,
    progress: Progress,
) -> Pixels:
    old = _read_index(home, size)
    known = _recognise(old, root, names)
    fresh = [i for i, record in enumerate(known) if record.row == _TO_DECODE]
    rows = [record.row for record in known if record.row >= 0]
    if fresh or rows != list(range(old.n_rows)):
        build = _Build(home, size, old, progress, len(fresh))
        with closing(
            decode_all([os.path.join(root, names[i]) for i in fresh], size, workers)
        ) as found:
            known = build.run(known, found)
        token = build.token
    else:
        token = old.token
        if known != old.records:
            Index(token, size, known).write(home / "index.npz")
    _sweep(home, token)
    good = [i for i, record in enumerate(known) if record.row >= 0]
    return Pixels(
        X=_map(home, token, len(good), size),
        kept=good,
        hashes=[known[i].digest.hex() for i in good],
        broken=[Broken(record.name, record.reason) for record in known if record.row < 0],
        decoded=len(fresh),
    )


def _read_index(home: Path, size: int) -> Index:
    index = Index.read(home / "index.npz")
    try:
        length = os.stat(_file(home, index.token)).st_size
    except OSError:
        return Index("", size)
    whole = length >= index.n_rows * 3 * size * size and index.size == size
    return index if whole else Index("", size)


def _recognise(old: Index, root: Path, names: Sequence[str]) -> list[Record]:
    """For each file the record that still holds; its row says if it must be decoded."""
    by_name = {record.name: record for record in old.records}
    by_content = {record.content: record for record in old.records if record.content}
    known = []
    for i, name in enumerate(names):
        # A list may name a file twice; its own place then counts first
        here = old.records[i] if i < len(old.records) else None
        record = here if here is not None and here.name == name else by_name.get(name)
        path = os.path.join(root, name)  # pathlib would take longer than all the rest
        stamp = _stamp(path)
        if record is None or record.stamp != stamp:
            record = by_content.get(hash_file(path)) if by_content else None
            record = record and record._replace(name=name, stamp=stamp)
        if record is None or stamp == _UNKNOWN:
            record = Record(name, stamp, b"", b"", _TO_DECODE, "")
        known.append(record)
    return known


def _stamp(path: str) -> Stamp:
    try:
        status = os.stat(path)
    except OSError:
        return _UNKNOWN
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns


class _Build:
    """Writes a new file of pixels: rows that are known are copied, the others decoded."""

    def __init__(self, home: Path, size: int, old: Index, progress: Progress, fresh: int) -> None:
        self.home, self.size, self.old = home, size, old
        self.progress, self.fresh, self.done = progress, fresh, 0
        self.token = secrets.token_hex(8)
        self.rows = 0
        self.lasting: list[Record] = []
        self.start = self.saved = self.told = time.monotonic()

    def run(self, known: list[Record], found: Iterator[Decoded]) -> list[Record]:
        """Fill the file in the order of the records; returns them with their rows."""
        pixels = _map(self.home, self.old.token, self.old.n_rows, self.size)
        out = []
        with open(_file(self.home, self.token), "wb", buffering=1 << 20) as file:
            for record in known:
                if record.row == _TO_DECODE:
                    out.append(self._decoded(file, record, next(found)))
                    self._tell()
                    self._checkpoint(file)
                else:
                    row = pixels[record.row].tobytes() if record.row >= 0 else None
                    out.append(self._add(file, record, row))
            _to_disk(file)
        Index(self.token, self.size, self.lasting).write(self.home / "index.npz")
        return out

    def _decoded(self, file: IO[bytes], record: Record, found: Decoded) -> Record:
        digest = bytes(HASH)
        if found.pixels is not None:
            square = np.frombuffer(found.pixels, np.uint8).reshape(3, self.size, self.size)
            digest = bytes.fromhex(hash_sample(square))
        record = record._replace(content=found.content, digest=digest, reason=found.reason)
        return self._add(file, record, found.pixels, found.lasting)

    def _add(
        self, file: IO[bytes], record: Record, pixels: bytes | None, lasting: bool = True
    ) -> Record:
        record = record._replace(row=-1)
        if pixels is not None:
            file.write(pixels)
            record = record._replace(row=self.rows)
            self.rows += 1
        if lasting:  # what may pass, such as a missing permission, is tried again next time
            self.lasting.append(record)
        return record

    def _tell(self) -> None:
        self.done += 1
        now = time.monotonic()
        if now - self.told >= TICK_SECONDS or self.done == self.fresh:
            self.told = now
            rate = self.done / max(now - self.start, 1e-9)
            self.progress(Tick("decode", self.done, self.fresh, {"images/s": rate}))

    def _checkpoint(self, file: IO[bytes]) -> None:
        """Keep what a long run has decoded so far, unless the old index knows more."""
        if time.monotonic() - self.saved < CHECKPOINT_SECONDS:
            return
        self.saved = time.monotonic()
        if len(self.lasting) > len(self.old.records):
            _to_disk(file)
            Index(self.token, self.size, self.lasting).write(self.home / "index.npz")


def _map(home: Path, token: str, n: int, size: int) -> NDArray[np.uint8]:
    if n == 0:  # nothing can be mapped
        return np.zeros((0, 3, size, size), np.uint8)
    return np.memmap(_file(home, token), dtype=np.uint8, mode="r", shape=(n, 3, size, size))


def _file(home: Path, token: str) -> Path:
    return home / f"pixels-{token}.bin"


def _to_disk(file: IO[bytes]) -> None:
    file.flush()
    os.fsync(file.fileno())


def _sweep(home: Path, token: str) -> None:
    """Remove what earlier states and killed processes have left (we hold the lock)."""
    for path in home.iterdir():
        old = path.name.startswith("pixels-") and path != _file(home, token)
        if old or path.name.endswith(".tmp"):
            with suppress(OSError):  # still open elsewhere, on some systems
                path.unlink()


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    """Hold a lock that the system releases when the process ends, however it ends."""
    try:
        import fcntl
    except ImportError:  # Windows: two builds at once do the work twice, each in its own file
        yield
        return
    with open(path, "ab") as file:
        with suppress(OSError):  # a file system without locks
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
