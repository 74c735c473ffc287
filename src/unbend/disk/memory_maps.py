"""Memory maps that are read once from end to end."""

from __future__ import annotations

import mmap
from typing import Any

import numpy as np

__all__ = ["check_whole", "forget_pages"]


def forget_pages(X: Any) -> None:
    """Give back the pages of a memory map that were read; they would count as our memory.

    Only maps that are shared with their file: a private one would lose what was written to it.
    """
    if isinstance(X, np.memmap) and X.mode in ("r", "r+"):
        mapped = getattr(X, "_mmap", None)
        if isinstance(mapped, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
            mapped.madvise(mmap.MADV_DONTNEED)


def check_whole(X: Any) -> None:
    """Raise an OSError when the file of a memory map was cut since it was opened.

    Reading what is no longer there would end the process by a signal, without a word.
    """
    path, mapped = getattr(X, "filename", None), getattr(X, "_mmap", None)
    if path is None or not isinstance(mapped, mmap.mmap):
        return
    try:
        length = mapped.size()  # of the file that was opened, whatever its name is now
    except OSError:
        return
    if length < X.offset - X.offset % mmap.ALLOCATIONGRANULARITY + len(mapped):
        raise OSError(f"{str(path)!r} was cut while it was read; restore it and start again")
