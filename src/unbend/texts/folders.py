"""Text files: list a folder and read them."""

from __future__ import annotations

import codecs
import os
from pathlib import Path

__all__ = ["TEXT_SUFFIXES", "list_texts", "read_texts"]

TEXT_SUFFIXES = (".txt", ".md")


def list_texts(root: str | Path) -> list[str]:
    """Text files below a folder, sorted by their relative paths; hidden ones are skipped."""
    found = []
    for folder, inside, files in os.walk(root):
        inside[:] = sorted(name for name in inside if not name.startswith("."))
        for name in files:
            if name.lower().endswith(TEXT_SUFFIXES) and not name.startswith("."):
                found.append(os.path.relpath(os.path.join(folder, name), root).replace(os.sep, "/"))
    return sorted(found, key=os.fsencode)


def read_texts(root: Path, names: list[str]) -> list[str | None]:
    """The text of each file; None where it cannot be read."""
    return [_read(root / name) for name in names]


def _read(path: Path) -> str | None:
    try:
        if not path.is_file():  # reading a pipe might never end
            return None
        content = path.read_bytes()
        if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            return content.decode("utf-16", errors="replace")
        # Text has no zero bytes; what has some is another kind of file.
        return None if b"\0" in content else content.decode("utf-8-sig", errors="replace")
    except OSError:
        return None
