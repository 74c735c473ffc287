"""Walk a new user's path, with every command from the README: ``make new-user``.

A clone, an empty virtual environment, an empty HOME, and a PATH without a compiler. Prints the time
of each command; raises if one fails or a result is wrong. Where PyTorch's own index cannot be
reached, ``python -m tools.new_user torch==2.13.0`` takes that build instead, by the ordinary index.
"""

from __future__ import annotations

import csv
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from tools.report_gallery import PHOTOGRAPHS, write_input

ROOT = Path(__file__).parents[1]
SECTION = "## Your own data"
_TOOLS = ("bash", "cat", "ls", "rm", "uname")  # what a shell and pip call; no compiler


def main() -> None:
    """Run the commands one after the other."""
    (torch,) = sys.argv[1:] or [""]
    with tempfile.TemporaryDirectory() as name:
        folder, clone = Path(name), Path(name) / "unbend"
        subprocess.run(["git", "clone", "--quiet", ROOT, clone], check=True)
        truth = _write_data(clone)
        env = _environment(folder)
        begun = time.perf_counter()
        _run("python3 -m venv env", clone, env)
        for command in commands((ROOT / "README.md").read_text(encoding="utf-8")):
            if torch and "download.pytorch.org" in command:
                command = f"pip install {torch}"
            said = _run(f". env/bin/activate && {command}", clone, env)
            if command.startswith("unbend cluster photos/"):
                assert (clone / "runs" / "photos" / "report.html").stat().st_size > 100_000
                print(f"   a report {time.perf_counter() - begun:.0f} s after the beginning")
            if command.startswith("unbend predict runs/photos"):
                _check_photographs(clone, truth, said)
        labels = (clone / "labels.csv").read_text(encoding="utf-8").splitlines()
        assert len(labels) == 1 + 20
        assert (clone / "runs" / "mine.onnx").stat().st_size > 10_000


def commands(readme: str) -> list[str]:
    """The commands of the README's section on one's own data.

    >>> commands("## Your own data\\n```console\\n$ a b  # c\\n```\\n## Next\\n$ d")
    ['a b']
    """
    section = readme.split(f"{SECTION}\n")[1].split("\n## ")[0]
    return [line.strip() for line in re.findall(r"^\$ ([^#\n]+)", section, re.M)]


def _run(command: str, work: Path, env: dict[str, str]) -> str:
    """Run a command in a shell, print its time, and return what it wrote."""
    start = time.perf_counter()
    done = subprocess.run(
        ["bash", "-c", command], cwd=work, env=env, capture_output=True, text=True
    )
    shown = command.removeprefix(". env/bin/activate && ")
    print(f"{time.perf_counter() - start:6.1f} s  {shown}", flush=True)
    if done.returncode:
        sys.exit(done.stdout + done.stderr)
    return done.stdout


def _environment(folder: Path) -> dict[str, str]:
    """Nothing but a home, a path, and how pip reaches its index."""
    (folder / "home").mkdir()
    (folder / "bin").mkdir()
    for tool in _TOOLS:
        found = shutil.which(tool)
        assert found is not None, f"{tool} is needed"
        (folder / "bin" / tool).symlink_to(found)
    (folder / "bin" / "python3").symlink_to(Path(sys.base_exec_prefix) / "bin" / "python3")
    kept = {k: v for k, v in os.environ.items() if k.startswith("PIP_") or k.endswith("_proxy")}
    return {**kept, "HOME": str(folder / "home"), "PATH": str(folder / "bin")}


def _write_data(clone: Path) -> dict[str, int]:
    """Photographs, a new one, a table, and embeddings; which of two photographs a crop is of."""
    write_input("photographs", clone)
    (clone / "photographs").rename(clone / "photos")
    files = sorted((clone / "photos").iterdir())
    truth = {file.name: int(which) for file, which in zip(files, PHOTOGRAPHS, strict=True)}
    files[0].rename(clone / "new.jpg")
    truth["new.jpg"] = truth.pop(files[0].name)
    rng = np.random.default_rng(0)
    X = np.repeat(8 * rng.normal(size=(12, 16)), 50, 0) + rng.normal(size=(600, 16))
    np.save(clone / "embeddings.npy", X)
    np.save(clone / "new.npy", X[::30])
    with (clone / "customers.csv").open("w", newline="", encoding="utf-8") as file:
        rows = [(f"c{i}", *map(float, x)) for i, x in enumerate(X[:400, :4])]
        csv.writer(file).writerows([("customer", "age", "income", "visits", "spent"), *rows])
    return truth


def _check_photographs(clone: Path, truth: dict[str, int], said: str) -> None:
    """The groups are the photographs, and the new crop is in the group of its photograph."""
    with (clone / "runs" / "photos" / "labels.csv").open(encoding="utf-8") as file:
        pairs = [(truth[row["sample"]], row["cluster"]) for row in csv.DictReader(file)]
    (new,) = csv.DictReader(said.splitlines())
    alike = [which for which, cluster in pairs if cluster == new["cluster"]]
    share = alike.count(truth["new.jpg"]) / len(alike)
    print(f"   the new photograph joins {len(alike)} others, {share:.0%} of the same photograph")
    assert share > 0.9


if __name__ == "__main__":
    main()
