"""``manifest.json``: what a run was made of, the same on every machine."""

from __future__ import annotations

import hashlib
import json
import platform
import re
import time
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

__all__ = ["MANIFEST_FORMAT", "Log", "combined_hash", "read_json", "software"]

MANIFEST_FORMAT = 1
_LIBRARIES = ("torch", "numpy", "scipy", "scikit-learn", "kornia", "lightning-fabric")
_LARGEST_JSON = 64 * 2**20


@dataclass
class Log:
    """Seconds of each stage and the warnings on the way."""

    seconds: dict[str, float] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Time a part of the work."""
        start = time.perf_counter()
        try:
            yield
        finally:
            spent = time.perf_counter() - start
            self.seconds[name] = round(self.seconds.get(name, 0.0) + spent, 3)

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Note warnings down, and still show them."""
        with warnings.catch_warnings():
            shown = warnings.showwarning

            def note(message: Warning | str, *args: Any, **options: Any) -> None:
                text = " ".join(str(message).split())
                if text not in self.warnings:
                    self.warnings.append(text)
                shown(message, *args, **options)

            warnings.showwarning = note
            yield


def combined_hash(parts: Iterable[str]) -> str:
    """One SHA-256 for many hashes, in their order."""
    whole = hashlib.sha256()
    for part in parts:
        whole.update(part.encode(errors="backslashreplace") + b"\n")
    return whole.hexdigest()


def software(version: str) -> dict[str, Any]:
    """Versions of unbend and of what computes; the commit when unbend runs from a checkout."""
    found: dict[str, Any] = {"unbend": version, "commit": _commit()}
    found["python"] = platform.python_version()
    for name in _LIBRARIES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def _commit() -> str | None:
    """The commit of the checkout that this file lies in, read without git."""
    root = Path(__file__).resolve().parents[3]
    try:
        if not (root / "pyproject.toml").is_file():
            return None
        head = (root / ".git" / "HEAD").read_text().strip()
        if not head.startswith("ref: "):
            return head if re.fullmatch("[0-9a-f]{40}", head) else None
        ref = head.removeprefix("ref: ")
        loose = root / ".git" / ref
        if loose.is_file():
            return loose.read_text().strip()
        packed = (root / ".git" / "packed-refs").read_text().splitlines()
        return next((line.split()[0] for line in packed if line.endswith(f" {ref}")), None)
    except (OSError, UnicodeDecodeError):
        return None


def read_json(path: Path) -> dict[str, Any]:
    """Read an object from a JSON file that may come from others."""
    if not path.is_file():
        raise ValueError(f"{str(path)!r} is missing; name a finished run")
    if path.stat().st_size > _LARGEST_JSON:
        raise ValueError(f"{str(path)!r} is larger than 64 MB, which unbend never writes")
    try:
        tree = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{str(path)!r} is damaged: {error}; cluster again") from error
    if not isinstance(tree, dict):
        raise ValueError(f"{str(path)!r} is damaged: it holds no object; cluster again")
    return tree
