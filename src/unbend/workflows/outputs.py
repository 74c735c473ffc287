"""Output directories that vanish when a call fails before writing anything."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["fresh_directory"]


@contextmanager
def fresh_directory(path: str | Path) -> Iterator[Path]:
    """Create a directory; remove it again if the work fails and leaves it empty."""
    path = Path(path)
    if path.exists() and not path.is_dir():
        raise ValueError(f"{str(path)!r} is a file; name a directory with -o")
    made = [p for p in (path, *path.parents) if not p.exists()]
    path.mkdir(parents=True, exist_ok=True)
    try:
        yield path
    except BaseException:
        for folder in (path / "cells", *made):
            if folder.is_dir() and not any(folder.iterdir()):
                folder.rmdir()
        raise
