"""Give memory that was freed back to the system."""

from __future__ import annotations

import ctypes
import sys

__all__ = ["release_freed"]


def release_freed() -> None:
    """Return freed memory to the system; does nothing without the GNU C library.

    A fit frees many arrays of many sizes. glibc keeps them for later, so a process looks up to
    100 MB larger than what it holds, more or less by chance after every fit. This takes about a
    millisecond and changes no live object.
    """
    if sys.platform != "linux":
        return
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # musl has none
    if trim is not None:
        trim(0)
