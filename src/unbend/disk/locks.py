"""Locks between processes; the system releases them when a process ends, however it ends."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

__all__ = ["Locked", "locked"]


class Locked(OSError):
    """Another process holds the lock."""


@contextmanager
def locked(path: str | Path, *, wait: bool = True, remove: bool = False) -> Iterator[None]:
    """Hold the lock of a file while the block runs.

    Parameters
    ----------
    wait : bool
        Wait for another process, or raise :class:`Locked` at once.
    remove : bool
        Delete the file at the end. filelock notices when it has locked a deleted one.
    """
    lock = FileLock(path, blocking=wait)
    try:
        lock.acquire()
    except Timeout as error:
        raise Locked(f"{str(path)!r} is locked by another process") from error
    try:
        yield
    finally:
        try:
            if remove:
                with suppress(OSError):  # Windows keeps files that are open
                    Path(path).unlink()
        finally:
            lock.release()
