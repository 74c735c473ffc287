"""Atomic writes: a file is either complete or absent.

A file being written has a name that starts with a dot and ends with ``.tmp``. If the process is
killed, that leftover can be deleted safely.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

import numpy as np

__all__ = [
    "TEMPORARY",
    "atomic_directory",
    "atomic_open",
    "atomic_write",
    "is_leftover",
    "move_files",
    "remove",
    "remove_leftovers",
    "to_json",
]

TEMPORARY = ".tmp"


def atomic_write(path: str | Path, content: str | bytes) -> None:
    """Write a file so that a crash leaves either the old content or the new."""
    # File names that are not valid Unicode arrive as lone surrogates: escape them.
    data = content.encode(errors="backslashreplace") if isinstance(content, str) else content
    with atomic_open(path) as file:
        file.write(data)


@contextmanager
def atomic_open(path: str | Path) -> Iterator[IO[bytes]]:
    """Open a file for writing in pieces; it gets its name when the block ends without an error."""
    path = Path(path)
    handle, name = tempfile.mkstemp(TEMPORARY, f".{path.name}.", path.parent)
    os.close(handle)
    try:
        with open(name, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, 0o666 & ~_umask())
        os.replace(name, path)
        _sync(path.parent)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


@contextmanager
def atomic_directory(path: str | Path) -> Iterator[Path]:
    """Fill a temporary sibling, then move it to ``path`` in one step.

    An existing directory is replaced only after the new one is complete.
    """
    path = Path(path)
    path = path.resolve() if path.is_symlink() else path  # replace what a link points to
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(TEMPORARY, f".{path.name}.", path.parent))
    try:
        yield temporary
        temporary.chmod(0o777 & ~_umask())
        _replace_directory(temporary, path)
        _sync(path.parent)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _replace_directory(new: Path, path: Path) -> None:
    try:
        if not path.is_dir():
            os.replace(new, path)
            return
    except OSError:
        if not path.is_dir():  # otherwise another process created it first
            raise
    retired = Path(tempfile.mkdtemp(TEMPORARY, f".{path.name}.old.", path.parent))
    try:
        os.replace(path, retired / "old")
        os.replace(new, path)
    except BaseException:
        if (retired / "old").exists():
            os.replace(retired / "old", path)
        retired.rmdir()
        raise
    shutil.rmtree(retired, ignore_errors=True)


def _sync(folder: Path) -> None:
    """Make a rename survive a power cut, where the system supports it."""
    if hasattr(os, "O_DIRECTORY"):
        with suppress(OSError):
            handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)


def is_leftover(name: str) -> bool:
    """Whether a file of this name is the partial output of a killed process."""
    return name.startswith(".") and name.endswith(TEMPORARY)


def remove_leftovers(folder: Path, prefix: str = "") -> None:
    """Delete the partial output of killed processes from a folder, for names with this prefix."""
    for path in folder.iterdir() if folder.is_dir() else ():
        if is_leftover(path.name) and path.name.startswith(f".{prefix}"):
            remove(path)


def move_files(source: Path, target: Path, *, last: str) -> None:
    """Move all that is in a directory to another one; ``last`` names what is moved last."""
    for path in sorted(source.iterdir(), key=lambda p: p.name == last):
        os.replace(path, target / path.name)


def remove(path: Path) -> None:
    """Delete a file, a link or a whole directory."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _umask() -> int:
    """The umask of the process; it can only be read by setting it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def to_json(tree: Any, **options: Any) -> str:
    """JSON of plain data, including NumPy numbers and arrays."""
    return json.dumps(tree, default=_plain, ensure_ascii=False, **options)


def _plain(value: Any) -> Any:
    if isinstance(value, (np.generic, np.ndarray)):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} cannot be written as JSON: {value!r}")
