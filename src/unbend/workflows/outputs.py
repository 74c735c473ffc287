"""Output directories that vanish when a call fails before writing anything."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["check_folder", "fresh_directory"]


def check_folder(out: Path) -> None:
    """Raise early if a file cannot be written to its folder."""
    if out.is_dir():
        raise ValueError(f"cannot write {str(out)!r}: it is a folder; name a file in it")
    if not out.parent.is_dir():
        raise ValueError(f"cannot write {str(out)!r}: no such folder; make it, or name another")
    if not os.access(out.parent, os.W_OK | os.X_OK):
        raise ValueError(
            f"cannot write {str(out)!r}: its folder is read-only; name another with -o"
        )


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
