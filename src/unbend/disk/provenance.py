"""Which command, commit and code produced a result."""

from __future__ import annotations

import hashlib
import shlex
import subprocess
import sys
from functools import cache
from importlib import metadata
from pathlib import Path

__all__ = [
    "ALGORITHM",
    "ESTIMATOR",
    "PEERS",
    "STAGE1",
    "code_hash",
    "command_line",
    "commit",
    "kept_from",
    "origin",
    "use_kept",
    "without_places",
]

# The code that results depend on: of stage 1, Algorithm 1, its peers and the estimator.
STAGE1 = (
    *("functional", "samples", "networks", "training", "pretrain"),
    *("rules.py", "knobs.py", "config.py", "budget.py", "begin.py"),
)
ALGORITHM = (*STAGE1, "labels", "algorithm.py", "experiments/stages.py")
PEERS = (*ALGORITHM, "baselines")
ESTIMATOR = (*ALGORITHM, "estimator", "encoding.py", "parameters.py")

_kept: set[str] = set()


@cache
def code_hash(*rooms: str) -> str:
    """SHA-256 of the source files of these rooms of the package."""
    home, digest = Path(__file__).resolve().parents[1], hashlib.sha256()
    for room in rooms:
        files = sorted((home / room).rglob("*.py")) if (home / room).is_dir() else [home / room]
        for file in files:
            content = file.read_bytes()
            digest.update(f"{file.relative_to(home).as_posix()} {len(content)}\n".encode())
            digest.update(content)
    return digest.hexdigest()


def command_line() -> str:
    """The running command as a user would type it.

    >>> isinstance(command_line(), str)
    True
    """
    program, *arguments = sys.argv or ["python"]
    name = Path(program).name
    if Path(program).parts[-2:] == ("unbend", "__main__.py"):  # python -m unbend
        name = "unbend"
    if name in ("__main__.py", "-c", "-m", ""):
        name = "python"
    return without_places(shlex.join([name, *arguments]))


def without_places(command: str) -> str:
    """A command without local directories: absolute paths keep only their last two parts.

    >>> without_places("unbend reproduce table2 -o /somewhere/else/runs/results")
    'unbend reproduce table2 -o runs/results'
    """
    parts = [
        Path(*Path(p).parts[-2:]) if Path(p).is_absolute() else p for p in shlex.split(command)
    ]
    return shlex.join(map(str, parts))


@cache
def commit() -> str | None:
    """Short hash of the current commit, with "+" if files differ; None without a checkout."""
    here = Path(__file__).resolve().parent
    head = _git(here, "rev-parse", "--short", "HEAD")
    tracked = _git(here, "ls-files", "--error-unmatch", __file__)
    if not head or not tracked:  # installed, perhaps inside somebody else's repository
        return None
    return head + ("+" if _git(here.parent, "status", "--porcelain", "--", ".") else "")


def origin() -> str:
    """The commit, or the version if unbend does not run from a checkout."""
    return commit() or f"version {metadata.version('unbend')}"


def _git(folder: Path, *arguments: str) -> str:
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments],
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def use_kept(origin: str) -> None:
    """Note that this process reuses results computed by the commit ``origin``."""
    _kept.add(origin)


def kept_from() -> list[str]:
    """Commits other than the current one whose results this process has reused."""
    return sorted(_kept - {origin()})
