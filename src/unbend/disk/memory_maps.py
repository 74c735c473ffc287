"""Helpers for memory maps that are read once from start to end."""

from __future__ import annotations

import mmap
from typing import Any

import numpy as np

__all__ = ["check_whole", "forget_pages"]


def forget_pages(X: Any) -> None:
    """Release the pages of a memory map that were read, which count as memory in use.

    Applies only to maps shared with their file: a private map would lose what was written to it.
    """
    if isinstance(X, np.memmap) and X.mode in ("r", "r+"):
        mapped = getattr(X, "_mmap", None)
        if isinstance(mapped, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
            mapped.madvise(mmap.MADV_DONTNEED)


def check_whole(X: Any) -> None:
    """Raise an OSError if the file of a memory map was truncated since it was opened.

    Reading the missing part would kill the process with a signal and no message.
    """
    path, mapped = getattr(X, "filename", None), getattr(X, "_mmap", None)
    if path is None or not isinstance(mapped, mmap.mmap):
        return
    try:
        length = mapped.size()  # of the file that was opened, whatever its name is now
    except OSError:
        return
    if length < X.offset - X.offset % mmap.ALLOCATIONGRANULARITY + len(mapped):
        raise OSError(f"{str(path)!r} was truncated while it was read; restore it and start again")
