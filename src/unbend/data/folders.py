"""Which images a folder holds, always in the same order."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, overload

from unbend.data.decode import EXTENSIONS

__all__ = ["Broken", "Listing", "PathList", "list_images"]


class Broken(NamedTuple):
    """A file that was left out, and why."""

    path: str
    reason: str


@dataclass(frozen=True)
class Listing:
    """Image files by their names, relative to a root, and what could not be one of them."""

    root: Path
    names: list[str]
    broken: list[Broken]


def list_images(root: str | Path) -> Listing:
    """List the images below a folder, sorted by the bytes of their relative paths.

    Hidden files and folders are skipped. Links are followed; a folder that can be reached in
    several ways is listed once, so loops end. What has an image's extension but is no file (a
    folder, a pipe, a link to nowhere) is returned as broken, and so is a folder that may not be
    read.
    """
    root = Path(root)
    names: list[str] = []
    broken: list[Broken] = []
    seen = {_identity(os.stat(root))}
    waiting = [""]
    while waiting:
        folder = waiting.pop()
        try:
            found = sorted(os.listdir(root / folder), key=os.fsencode)
        except OSError as error:
            if not folder:
                raise
            broken.append(Broken(folder, f"folder cannot be read: {error.strerror}"))
            continue
        inside = []
        for entry in found:
            if entry.startswith("."):
                continue
            name = f"{folder}/{entry}" if folder else entry
            wanted = entry.lower().endswith(EXTENSIONS)
            problem = _examine(root / name, wanted, seen)
            if problem is None:
                names.append(name)
            elif problem == "":
                inside.append(name)
            elif wanted:
                broken.append(Broken(name, problem))
        waiting.extend(reversed(inside))
    return Listing(root, sorted(names, key=os.fsencode), sorted(broken, key=_by_path))


def _examine(path: Path, wanted: bool, seen: set[tuple[int, int]]) -> str | None:
    """None: an image file; "": a folder to enter; any other text: why it is neither."""
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return "link to nowhere"
    except OSError as error:
        return error.strerror or "cannot be read"
    if stat.S_ISDIR(status.st_mode):
        if wanted:
            return "a folder, not an image"
        new = _identity(status) not in seen
        seen.add(_identity(status))
        return "" if new else "already listed"
    if not stat.S_ISREG(status.st_mode):
        return "not a regular file"
    return None if wanted else "no image's extension"


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def _by_path(broken: Broken) -> bytes:
    return os.fsencode(broken.path)


class PathList(Sequence[Path]):
    """Paths made from a root and names when asked for: a million Path objects weigh a lot."""

    def __init__(self, root: Path, names: Sequence[str]) -> None:
        self._root, self._names = root, names

    def __len__(self) -> int:
        return len(self._names)

    @overload
    def __getitem__(self, index: int) -> Path: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Path]: ...
    def __getitem__(self, index: int | slice) -> Path | Sequence[Path]:
        if isinstance(index, slice):
            return PathList(self._root, self._names[index])
        return self._root / self._names[index]
