"""Install the wheel into an empty environment and run the smoke tests there.

``python -m tools.install_dist newest`` takes the newest versions of what unbend needs, ``lowest``
the lowest that ``pyproject.toml`` allows. Give torch's index for CPUs as ``PIP_EXTRA_INDEX_URL``
to avoid gigabytes of CUDA.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
import venv
from importlib.metadata import PathDistribution
from pathlib import Path
from zipfile import Path as ZipPath
from zipfile import ZipFile

ROOT = Path(__file__).parents[1]


def main() -> None:
    """Raise if the installation or a smoke test fails."""
    if sys.argv[1:] not in (["newest"], ["lowest"]):
        sys.exit("usage: python -m tools.install_dist newest|lowest")
    (wheel,) = (ROOT / "dist").glob("*.whl")
    with tempfile.TemporaryDirectory() as name:
        python = _environment(Path(name) / "env")
        pins = Path(name) / "pins.txt"
        pins.write_text("\n".join(lowest(wheel)) if sys.argv[1] == "lowest" else "")
        start = time.perf_counter()
        pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, wheel, "-c", pins], check=True)
        print(f"installed in {time.perf_counter() - start:.0f} s", flush=True)
        _print_size(Path(name) / "env")
        env = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
        env |= {"HOME": name, "UNBEND_CACHE": str(Path(name) / "cache")}
        # Not from the checkout, whose src/ must not be what is tested.
        subprocess.run([python, ROOT / "tools" / "smoke.py"], cwd=name, env=env, check=True)


def lowest(wheel: Path) -> list[str]:
    """The lowest version of each dependency as a constraint.

    >>> re.sub(*_TO_PIN, "torch>=2.4")
    'torch==2.4'
    """
    with ZipFile(wheel) as archive:
        (info,) = {n.split("/")[0] for n in archive.namelist() if ".dist-info/" in n}
        needs = PathDistribution(ZipPath(archive, f"{info}/")).requires or []  # type: ignore[arg-type]
    return [re.sub(*_TO_PIN, need) for need in needs if "extra ==" not in need]


_TO_PIN = (r">=([\w.]+)", r"==\1")


def _environment(folder: Path) -> str:
    venv.create(folder, with_pip=True)
    found = sorted(folder.glob("bin/python")) + sorted(folder.glob("Scripts/python.exe"))
    return str(found[0])


def _print_size(folder: Path) -> None:
    sizes: dict[str, int] = {}
    packages = next(folder.glob("[Ll]ib/**/site-packages"))  # lib64 is a link to lib
    for path in packages.rglob("*"):
        if path.is_file() and not path.is_symlink():
            name = path.relative_to(packages).parts[0]
            sizes[name] = sizes.get(name, 0) + path.stat().st_size
    torch = sum(v for k, v in sizes.items() if re.match("torch|nvidia|triton|functorch", k))
    print(f"{(sum(sizes.values()) - torch) / 1e6:.0f} MB beside torch, {torch / 1e6:.0f} MB torch")
    for name in sorted(sizes, key=lambda k: -sizes[k])[:8]:
        print(f"  {sizes[name] / 1e6:6.0f} MB  {name}", flush=True)


if __name__ == "__main__":
    main()
