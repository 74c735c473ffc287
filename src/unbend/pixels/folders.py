"""List the images below a folder, always in the same order."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import NamedTuple

from unbend.pixels.decode import EXTENSIONS

__all__ = ["Broken", "Listing", "has_images", "list_images", "path_inside", "skipped_hint"]

# Kinds of images that need an extra or cannot be read; they are counted and skipped.
_KINDS = (
    ".heic", ".heif", ".avif", ".jxl", ".jp2", ".psd", ".svg", ".dng", ".cr2", ".nef", ".arw",
)  # fmt: skip
_OTHER_KINDS = tuple(kind for kind in _KINDS if kind not in EXTENSIONS)


class Broken(NamedTuple):
    """A file that was skipped, and the reason."""

    path: str
    reason: str


@dataclass(frozen=True)
class Listing:
    """Names of image files relative to a root, and the entries that could not be used."""

    root: Path
    names: list[str]
    broken: list[Broken]
    skipped: Counter[str] = field(default_factory=Counter)  # kinds of images that are not read


def list_images(root: str | Path) -> Listing:
    """List the images below a folder, sorted by the bytes of their relative paths.

    Hidden files and folders are skipped. Links are followed; a folder that can be reached in
    several ways is listed once, so loops end. An entry with an image extension that is not a
    regular file (a folder, a pipe, a broken link) is returned as broken, and so is an unreadable
    folder.
    """
    root = Path(root)
    names: list[str] = []
    broken: list[Broken] = []
    skipped: Counter[str] = Counter()
    seen = {_identity(os.stat(root))}
    waiting = [""]
    while waiting:
        folder = waiting.pop()
        try:
            with os.scandir(root / folder) as entries:
                found = sorted(entries, key=lambda entry: os.fsencode(entry.name))
        except OSError as error:
            if not folder:
                raise
            broken.append(Broken(folder, f"folder cannot be read: {error.strerror}"))
            continue
        folders = []
        for entry in found:
            name = f"{folder}/{entry.name}" if folder else entry.name
            what = _examine(entry, seen)
            if what is _IMAGE:
                names.append(name)
            elif what is _FOLDER:
                folders.append(name)
            elif what:
                broken.append(Broken(name, what))
            elif entry.name.lower().endswith(_OTHER_KINDS) and not entry.name.startswith("."):
                skipped[Path(entry.name).suffix.lower()] += 1
        waiting.extend(reversed(folders))
    return Listing(root, sorted(names, key=os.fsencode), sorted(broken, key=_by_path), skipped)


def has_images(root: str | Path) -> bool:
    """Whether a folder holds any file named like an image; stops at the first."""
    return any(
        name.lower().endswith(EXTENSIONS) and not name.startswith(".")
        for _, _, files in os.walk(root, followlinks=False)
        for name in files
    )


def skipped_hint(listing: Listing) -> str:
    """How many images of other kinds a folder holds, and what to do; empty if there are none."""
    if not listing.skipped:
        return ""
    counts = ", ".join(f"{n} {kind}" for kind, n in sorted(listing.skipped.items()))
    apple = any(kind in (".heic", ".heif") for kind in listing.skipped)
    them = "it" if sum(listing.skipped.values()) == 1 else "them"
    remedy = "pip install 'unbend[heif]'" if apple else f"convert {them} to PNG"
    return f" ({counts} skipped: {remedy})"


_IMAGE, _FOLDER, _IGNORED = "an image", "a folder", ""


def _examine(entry: os.DirEntry[str], seen: set[tuple[int, int]]) -> str:
    """Classify an entry as image, folder or ignored, or return why it is broken."""
    if entry.name.startswith("."):
        return _IGNORED
    wanted = entry.name.lower().endswith(EXTENSIONS)
    try:
        if entry.is_file():  # needs no extra system call on most systems
            return _IMAGE if wanted else _IGNORED
        if not entry.is_dir() or wanted:
            return _why_no_image(entry) if wanted else _IGNORED
        identity = _identity(entry.stat())
    except OSError as error:
        return (error.strerror or "cannot be read") if wanted else _IGNORED
    new = identity not in seen
    seen.add(identity)
    return _FOLDER if new else _IGNORED


def _why_no_image(entry: os.DirEntry[str]) -> str:
    if entry.is_dir():
        return "a folder, not an image"
    return "not a regular file" if os.path.exists(entry.path) else "link to nowhere"


def path_inside(root: Path, name: str) -> Path | None:
    """The file of a sample; None if its name is not that of an image or leads out of the folder."""
    pure = PurePosixPath(name)
    drive = os.name == "nt" and PureWindowsPath(name).drive  # elsewhere C: is a plain name
    if pure.is_absolute() or drive or ".." in pure.parts or "\0" in name:
        return None
    return root / pure if pure.suffix.lower() in EXTENSIONS else None


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def _by_path(broken: Broken) -> bytes:
    return os.fsencode(broken.path)
