"""Where caches and data sets live, and files that are either complete or absent."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = [
    "default_cache_dir",
    "default_data_dir",
    "keep_latest",
    "replace_directory",
    "replace_file",
]


def default_cache_dir() -> Path:
    """``$UNBEND_CACHE``, or ``unbend`` in the cache directory of the platform.

    Everything under it can be deleted at any time; it is made again when needed.
    """
    if os.environ.get("UNBEND_CACHE"):
        return Path(os.environ["UNBEND_CACHE"]).expanduser()
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "unbend"
    variable = "LOCALAPPDATA" if sys.platform == "win32" else "XDG_CACHE_HOME"
    root = os.environ.get(variable)
    return (Path(root) if root else Path.home() / ".cache") / "unbend"


def default_data_dir() -> Path:
    """``$UNBEND_DATA``, or ``data`` in the cache directory: where the named sets are kept."""
    given = os.environ.get("UNBEND_DATA")
    return Path(given).expanduser() if given else default_cache_dir() / "data"


@contextmanager
def replace_file(path: Path) -> Iterator[Path]:
    """Yield a temporary name beside ``path``; what was written there takes its place at the end."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(".tmp", f".{path.name}.", path.parent)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        _to_disk(temporary)
        temporary.chmod(0o644)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def replace_directory(path: Path) -> Iterator[Path]:
    """Fill a temporary directory beside ``path``, which appears as a whole at the end."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(".tmp", f".{path.name}.", path.parent))
    try:
        yield temporary
        for file in temporary.iterdir():
            _to_disk(file)
        temporary.chmod(0o755)
        try:
            os.replace(temporary, path)
        except OSError:
            if not path.is_dir():  # otherwise another process was quicker, with the same content
                raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def keep_latest(paths: Iterable[Path], most: int) -> None:
    """Delete files and directories of a cache but for the ``most`` that were touched last."""
    by_age = sorted(paths, key=_touched)
    for path in by_age[: max(0, len(by_age) - most)]:
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def _touched(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:  # another process was quicker
        return 0.0


def _to_disk(path: Path) -> None:
    with open(path, "rb+") as file:
        os.fsync(file.fileno())
