"""Install the wheel into an empty environment and run the smoke tests there.

It prints the versions, the size beside torch and the times of imports.
``python -m tools.install_dist newest`` takes the newest versions of what unbend needs, ``lowest``
the lowest that ``pyproject.toml`` allows. Pins after that win, as in ``lowest torch==2.13.0``. Give
torch's index for CPUs as ``PIP_EXTRA_INDEX_URL`` to avoid gigabytes of CUDA.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Sequence, Set
from importlib.metadata import Distribution, PathDistribution, distributions
from pathlib import Path
from zipfile import Path as ZipPath
from zipfile import ZipFile

ROOT = Path(__file__).parents[1]


def main() -> None:
    """Raise if the installation or a smoke test fails."""
    which, *given = sys.argv[1:] or [""]
    if which not in ("newest", "lowest") or not all("==" in pin for pin in given):
        sys.exit("usage: python -m tools.install_dist newest|lowest [NAME==VERSION ...]")
    (wheel,) = (ROOT / "dist").glob("*.whl")
    with tempfile.TemporaryDirectory() as name:
        python = _environment(Path(name) / "env")
        pins = Path(name) / "pins.txt"
        pins.write_text("\n".join([*(lowest(wheel, given) if which == "lowest" else []), *given]))
        start = time.perf_counter()
        pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, wheel, "-c", pins], check=True)
        print(f"installed in {time.perf_counter() - start:.0f} s", flush=True)
        found = _installed(Path(name) / "env")
        _print_versions(found, python)
        _print_size(found)
        env = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
        env |= {"HOME": name, "UNBEND_CACHE": str(Path(name) / "cache")}
        for code in ("import unbend", "import torch, sklearn.base", "from unbend import MLC"):
            print(f"{_seconds([python, '-c', code], name, env):.2f} s  {code}", flush=True)
        # Not from the checkout, whose src/ must not be what is tested.
        subprocess.run([python, ROOT / "tools" / "smoke.py"], cwd=name, env=env, check=True)


def lowest(wheel: Path, given: list[str]) -> list[str]:
    """The lowest version of each dependency as a constraint, without those that are given.

    >>> re.sub(*_TO_PIN, "torch>=2.4")
    'torch==2.4'
    """
    with ZipFile(wheel) as archive:
        (info,) = {n.split("/")[0] for n in archive.namelist() if ".dist-info/" in n}
        needs = PathDistribution(ZipPath(archive, f"{info}/")).requires or []  # type: ignore[arg-type]
    names = {pin.partition("==")[0] for pin in given}
    return [
        re.sub(*_TO_PIN, need)
        for need in needs
        if "extra ==" not in need and need.partition(">=")[0] not in names
    ]


_TO_PIN = (r">=([\w.]+)", r"==\1")


def _environment(folder: Path) -> str:
    venv.create(folder, with_pip=True)
    found = sorted(folder.glob("bin/python")) + sorted(folder.glob("Scripts/python.exe"))
    return str(found[0])


def _installed(folder: Path) -> dict[str, Distribution]:
    """The packages of an environment by their names."""
    packages = next(folder.glob("[Ll]ib/**/site-packages"))  # lib64 is a link to lib
    return {_key(d.metadata["Name"]): d for d in distributions(path=[str(packages)])}


def _print_versions(found: dict[str, Distribution], python: str) -> None:
    """What was really installed for each direct requirement."""
    done = subprocess.run([python, "-V"], capture_output=True, text=True, check=True)
    names = [name for name, _ in needs(found["unbend"].requires or []) if name in found]
    versions = [f"{name} {found[name].version}" for name in names]
    print(", ".join([done.stdout.strip(), *versions]))


def _seconds(command: list[str], work: str, env: dict[str, str]) -> float:
    """The shortest of three times; the first also reads the files from the disk."""
    times = []
    for _ in range(3):
        start = time.perf_counter()
        subprocess.run(command, cwd=work, env=env, check=True)
        times.append(time.perf_counter() - start)
    return min(times)


def _print_size(found: dict[str, Distribution]) -> None:
    """What unbend adds to an environment that has torch and what torch itself requires."""
    sizes = {name: _size(d) for name, d in found.items()}
    torch = _closure("torch", found)
    added = [name for name in found if name not in torch and name != "pip"]
    print(f"{sum(sizes[name] for name in added) / 1e6:.0f} MB beside torch", end=", ")
    print(f"{sum(sizes[name] for name in torch) / 1e6:.0f} MB torch and what it requires")
    for name in sorted(added, key=lambda name: -sizes[name])[:8]:
        print(f"  {sizes[name] / 1e6:6.0f} MB  {name}", flush=True)


def _closure(name: str, found: dict[str, Distribution]) -> set[str]:
    """A package and everything it requires, as far as it is installed."""
    done: set[tuple[str, frozenset[str]]] = set()
    waiting = [(name, frozenset[str]())]
    while waiting:
        item = waiting.pop()
        if item[0] in found and item not in done:
            done.add(item)
            waiting += needs(found[item[0]].requires or [], item[1])
    return {name for name, _ in done}


def needs(lines: Sequence[str], extras: Set[str] = frozenset()) -> list[tuple[str, frozenset[str]]]:
    """What a package requires with some of its extras: names, each with the extras asked of it.

    >>> needs(["a[x]>=1; python_version > '3'", "b==2; extra == 'big'"])
    [('a', frozenset({'x'}))]
    >>> needs(["b_c==2; extra == 'big'", "d; extra == 'small'"], {"big"})
    [('b-c', frozenset())]
    """
    parsed = []
    for line in lines:
        extra = re.search(r"""extra == ["']([^"']+)""", line)
        match = re.match(r"([\w.-]+)\s*(?:\[([^\]]*)\])?", line)
        if match and (extra is None or extra[1] in extras):
            parsed.append((_key(match[1]), frozenset(re.findall(r"[\w.-]+", match[2] or ""))))
    return parsed


def _key(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _size(distribution: Distribution) -> int:
    paths = [Path(str(distribution.locate_file(file))) for file in distribution.files or []]
    return sum(path.stat().st_size for path in paths if path.is_file())


if __name__ == "__main__":
    main()
