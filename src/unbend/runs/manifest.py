"""``manifest.json``: the inputs, software and files of a run."""

from __future__ import annotations

import json
import os
import platform
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

from unbend.disk import atomic_write, hash_file, to_json
from unbend.disk.provenance import commit

__all__ = [
    "CURATED",
    "JOURNAL",
    "MANIFEST",
    "MANIFEST_FORMAT",
    "PROGRAM",
    "Log",
    "check_files",
    "check_run",
    "hash_files",
    "listed_files",
    "read_json",
    "record_file",
    "software",
]

MANIFEST = "manifest.json"
# Files that `unbend explore` adds to a finished run: the journal, and what is made from it.
JOURNAL = "curation.jsonl"
CURATED = (JOURNAL, "curated.csv", "curated.parquet", "curated-report.html")
MANIFEST_FORMAT = 2
PROGRAM = "unbend"
_LIBRARIES = ("torch", "numpy", "scipy", "scikit-learn", "kornia", "lightning-fabric")
_LARGEST_JSON = 64 * 2**20


@dataclass
class Log:
    """The seconds of each stage and the warnings of a run."""

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
        """Record warnings, and still show them."""
        with warnings.catch_warnings():
            shown = warnings.showwarning

            def note(message: Warning | str, *args: Any, **options: Any) -> None:
                text = " ".join(str(message).split())
                if text not in self.warnings:
                    self.warnings.append(text)
                shown(message, *args, **options)

            warnings.showwarning = note
            yield


def software(version: str) -> dict[str, Any]:
    """Versions of unbend and its numerical libraries, and the commit if run from a checkout."""
    found: dict[str, Any] = {"unbend": version, "commit": commit()}
    found["python"] = platform.python_version()
    for name in _LIBRARIES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def hash_files(folder: Path) -> dict[str, str]:
    """SHA-256 of every file in a folder except the manifest, by relative path."""
    files = sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file())
    return {name: hash_file(folder / name) for name in files if name != MANIFEST}


def listed_files(folder: Path) -> set[str]:
    """The files listed in the manifest of a folder; empty without a manifest of this version.

    Other programs write files of that name too. A path outside the folder is not ours either.
    """
    manifest = _manifest(folder)
    files = manifest.get("files") if manifest.get("program") == PROGRAM else None
    if not isinstance(files, dict) or not all(map(_is_inside, files)):
        return set()
    return set(files)


def check_files(folder: Path, *names: str) -> None:
    """Raise a ValueError if files of a run have changed since it wrote them.

    ``names`` are files or folders, by default all but the report, which may be rewritten. Missing
    files, and folders without a manifest, are not checked.
    """
    if not os.path.lexists(folder / MANIFEST):
        return
    files = read_json(folder / MANIFEST).get("files", {})
    for name in sorted(listed_files(folder)):
        wanted = name.partition("/")[0] in names if names else name != "report.html"
        path = folder / name
        if wanted and path.is_file() and hash_file(path) != files[name]:
            raise ValueError(
                f"{str(path)!r} is not what the run wrote: its hash differs from that in "
                f"{MANIFEST}; cluster again with --overwrite"
            )


def check_run(run: Path, *names: str) -> None:
    """Raise a ValueError unless this is a finished run whose files are unchanged."""
    if not run.is_dir():
        raise ValueError(f"no run {str(run)!r}; make one with: unbend cluster INPUT -o {run}")
    if (run / "checkpoints").is_dir() and not (run / MANIFEST).exists():
        raise ValueError(f"the run {str(run)!r} is unfinished; finish it with cluster --resume")
    check_files(run, *names)


def record_file(folder: Path, name: str) -> None:
    """Update the hash of a rewritten file in the manifest."""
    manifest = _manifest(folder)
    if isinstance(manifest.get("files"), dict):
        manifest["files"][name] = hash_file(folder / name)
        atomic_write(folder / MANIFEST, to_json(manifest, indent=2) + "\n")


def _manifest(folder: Path) -> dict[str, Any]:
    try:
        return read_json(folder / MANIFEST)
    except ValueError:
        return {}


def _is_inside(name: str) -> bool:
    parts = name.split("/")
    return not {"", ".", ".."} & set(parts) and "\\" not in name and "\0" not in name


def read_json(path: Path) -> dict[str, Any]:
    """Read an object from an untrusted JSON file."""
    if not path.is_file():
        wrong = "is not a regular file" if path.exists() else "is missing"
        raise ValueError(f"{str(path)!r} {wrong}; name a finished run")
    if path.stat().st_size > _LARGEST_JSON:
        raise ValueError(f"{str(path)!r} is larger than 64 MB, which unbend never writes")
    try:
        tree = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{str(path)!r} is damaged: {error}; cluster again") from error
    if not isinstance(tree, dict):
        raise ValueError(f"{str(path)!r} is damaged: it holds no object; cluster again")
    return tree
