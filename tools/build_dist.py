"""Build wheel and source distribution, and check what is in them: ``make dist``."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parents[1]
SHIPPED = ("src/", "tests/", "tools/", "benchmarks/", "docs/", "examples/")


def main() -> None:
    """Build into dist/; raise if a file is missing or does not belong there."""
    shutil.rmtree(ROOT / "dist", ignore_errors=True)
    subprocess.run([sys.executable, "-m", "build", *sys.argv[1:], str(ROOT)], check=True)
    files = sorted((ROOT / "dist").iterdir())
    subprocess.run([sys.executable, "-m", "twine", "check", "--strict", *files], check=True)
    (wheel,) = (ROOT / "dist").glob("*.whl")
    (source,) = (ROOT / "dist").glob("*.tar.gz")
    tracked = _git_files()
    problems = check_wheel(wheel, tracked) + check_source(source, tracked)
    problems += check_tag(wheel, os.environ)
    if problems:
        sys.exit("\n".join(problems))
    for path in (wheel, source):
        print(f"{path.name}: {path.stat().st_size / 1e6:.2f} MB")


def check_wheel(path: Path, tracked: set[str]) -> list[str]:
    """Every file of the package and nothing else."""
    with zipfile.ZipFile(path) as archive:
        found = {n for n in archive.namelist() if ".dist-info/" not in n}
    wanted = {n.removeprefix("src/") for n in tracked if n.startswith("src/")}
    return _differences(path.name, found, wanted)


def check_source(path: Path, tracked: set[str]) -> list[str]:
    """Every tracked file of the folders that are shipped, and no file that is not tracked."""
    with tarfile.open(path) as archive:
        names = {m.name.partition("/")[2] for m in archive.getmembers() if m.isfile()}
    found = {n for n in names if n.startswith(SHIPPED)}
    return _differences(path.name, found, {n for n in tracked if n.startswith(SHIPPED)})


def check_tag(wheel: Path, env: Mapping[str, str]) -> list[str]:
    """A release must carry the version of its tag, as GitHub's workflow names it.

    >>> check_tag(Path("unbend-0.2.0-py3-none-any.whl"), {"GITHUB_REF": "refs/tags/v0.3.0"})
    ['the tag is v0.3.0, but the version of the wheel is 0.2.0; change src/unbend/__init__.py']
    >>> check_tag(Path("unbend-0.2.0-py3-none-any.whl"), {"GITHUB_REF": "refs/heads/main"})
    []
    """
    kind, _, tag = env.get("GITHUB_REF", "").rpartition("/")
    version = wheel.name.split("-")[1]
    if kind != "refs/tags" or tag == f"v{version}":
        return []
    return [
        f"the tag is {tag}, but the version of the wheel is {version}; change "
        "src/unbend/__init__.py"
    ]


def _differences(name: str, found: set[str], wanted: set[str]) -> list[str]:
    return [f"{name} lacks {n}" for n in sorted(wanted - found)] + [
        f"{name} holds {n}, which git does not track" for n in sorted(found - wanted)
    ]


def _git_files() -> set[str]:
    done = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    return set(done.stdout.splitlines())


if __name__ == "__main__":
    main()
