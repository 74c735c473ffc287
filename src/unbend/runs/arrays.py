"""Write an array of a run in pieces, and read it again."""

from __future__ import annotations

import tokenize
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unbend.disk.files import atomic_open

__all__ = ["npy_file", "read_npy"]

# Raised by NumPy on headers that were cut or changed.
_DAMAGE = (ValueError, EOFError, OSError, SyntaxError, tokenize.TokenError, LookupError, TypeError)


def read_npy(path: Path, kind: str) -> NDArray[Any] | None:
    """A memory-mapped array of a run, of floats ("f") or unsigned integers ("u"), or None."""
    if not path.is_file():
        return None
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except _DAMAGE as error:
        reason = error.args[0] if error.args else error
        raise ValueError(f"{str(path)!r} is damaged: {reason}; cluster again") from error
    if not isinstance(array, np.ndarray) or array.dtype.kind != kind:
        found = getattr(array, "dtype", "an archive")
        raise ValueError(f"{str(path)!r} holds {found}, not what a run writes; cluster again")
    return np.asarray(array)


@contextmanager
def npy_file(
    path: str | Path, shape: tuple[int, ...], dtype: Any = np.float32
) -> Iterator[Callable[[NDArray[Any]], None]]:
    """Append rows to a ``.npy`` file of known shape; it appears when all rows are written.

    Uses plain writes, because written pages of a memory map count as memory of the process.
    """
    written = 0
    with atomic_open(path) as file:
        header = {"descr": np.dtype(dtype).str, "fortran_order": False, "shape": tuple(shape)}
        np.lib.format.write_array_header_1_0(file, header)

        def write(rows: NDArray[Any]) -> None:
            nonlocal written
            if rows.shape[1:] != tuple(shape[1:]):
                raise ValueError(f"rows for {str(path)!r} must be {shape[1:]}, got {rows.shape}")
            file.write(np.ascontiguousarray(rows, dtype=dtype).data)
            written += len(rows)
            if written == shape[0]:
                file.flush()  # a full disk is an error now, not when the block ends

        yield write
        if written != shape[0]:
            raise ValueError(f"{str(path)!r} needs {shape[0]} rows, got {written}")
