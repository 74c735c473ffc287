"""Memory maps that are read once from end to end."""

from __future__ import annotations

import mmap
from typing import Any

import numpy as np

__all__ = ["forget_pages"]


def forget_pages(X: Any) -> None:
    """Give back the pages of a memory map that were read; they would count as our memory.

    Only maps that are shared with their file: a private one would lose what was written to it.
    """
    if isinstance(X, np.memmap) and X.mode in ("r", "r+"):
        mapped = getattr(X, "_mmap", None)
        if isinstance(mapped, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
            mapped.madvise(mmap.MADV_DONTNEED)
