"""Locks between processes; the operating system releases them when a process ends."""

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
    """Hold a file lock while the block runs.

    Parameters
    ----------
    wait : bool
        Whether to wait for another process, or to raise :class:`Locked` at once.
    remove : bool
        Delete the file at the end. filelock notices if the file it locked was deleted.
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
                with suppress(OSError):  # Windows does not delete open files
                    Path(path).unlink()
        finally:
            lock.release()
