"""Write the reports of the gallery and their pictures: ``make gallery``.

Each comes from one command on data that packages bring, so everyone can repeat it. Pictures need
Chromium. ``python -m tools.report_gallery wine`` writes one.
"""

from __future__ import annotations

import csv
import inspect
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import numpy as np
from PIL import Image

ROOT = Path(__file__).parents[1]
REPORTS = ROOT / "docs" / "extra" / "reports"  # Sphinx copies docs/extra into the site as it is
COMMANDS = {
    "digits": "unbend cluster digits -k 10 --compare",
    "photographs": "unbend cluster photographs/",
    "texts": "unbend cluster texts/",
    "wine": "unbend cluster wine.csv --labels cultivar",
    "faces": "unbend cluster faces.npy -k 5 --noise",
}
PHOTOGRAPHS = np.random.default_rng(0).permutation(300) % 2  # which of two a crop is of


def main() -> None:
    """Write the named reports, by default all of them."""
    for name in sys.argv[1:] or COMMANDS:
        start = time.perf_counter()
        with tempfile.TemporaryDirectory() as work:
            write_input(name, Path(work))
            report = cluster(name, Path(work))
            REPORTS.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(report, REPORTS / f"{name}.html")
        take_picture(REPORTS / f"{name}.html", REPORTS / f"{name}.png")
        print(f"{name}: {time.perf_counter() - start:.0f} s", flush=True)


def cluster(name: str, work: Path) -> Path:
    """Run the command of a report in a folder; return the file it wrote."""
    words = shlex.split(COMMANDS[name])
    assert words[0] == "unbend"
    command = [sys.executable, "-m", *words, "-q", "-o", f"runs/{name}"]
    subprocess.run(command, cwd=work, check=True)
    return work / "runs" / name / "report.html"


def write_input(name: str, work: Path) -> None:
    """Put what a command reads into a folder; named sets need nothing."""
    write = _INPUTS.get(name)
    if write is not None:
        write(work)


def _photographs(work: Path) -> None:
    """300 crops of the two photographs of scikit-learn, numbered at random."""
    from sklearn.datasets import load_sample_images

    photographs = load_sample_images().images  # two arrays (427, 640, 3)
    rng, side = np.random.default_rng(0), 112
    (work / "photographs").mkdir()
    for number, which in enumerate(PHOTOGRAPHS):
        top, left = rng.integers(427 - side), rng.integers(640 - side)
        crop = Image.fromarray(photographs[which][top : top + side, left : left + side])
        crop.save(work / "photographs" / f"{number:03d}.jpg", quality=90)


def _texts(work: Path) -> None:
    """The docstrings of three parts of scipy, a file each."""
    (work / "texts").mkdir()
    for part in ("stats", "signal", "linalg"):
        module = import_module(f"scipy.{part}")
        for name in module.__all__:
            text = inspect.getdoc(getattr(module, name)) or ""
            if len(text) > 300:
                (work / "texts" / f"{part}.{name}.txt").write_text(text, encoding="utf-8")


def _wine(work: Path) -> None:
    """178 wines by what a chemist measured, with the cultivar of each."""
    from sklearn.datasets import load_wine

    wine = load_wine()
    with (work / "wine.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow([*wine.feature_names, "cultivar"])
        for row, cultivar in zip(wine.data.tolist(), wine.target_names[wine.target], strict=True):
            writer.writerow([*row, cultivar])


def _faces(work: Path) -> None:
    """The subspaces of examples/4_subspaces.py, and ten rows that are in none of them."""
    rng = np.random.default_rng(0)
    bases = [np.linalg.qr(rng.normal(size=(100, 9)))[0] for _ in range(5)]
    inside = [bases[q] @ rng.normal(size=9) for q in np.repeat(np.arange(5), 80)]
    X = np.concatenate([inside, rng.normal(size=(10, 100)) * 0.3])
    np.save(work / "faces.npy", (X + 0.05 * rng.normal(size=X.shape)).astype(np.float32))


_INPUTS: dict[str, Callable[[Path], None]] = {
    "photographs": _photographs,
    "texts": _texts,
    "wine": _wine,
    "faces": _faces,
}


def take_picture(page: Path, out: Path) -> None:
    """The first screen of a report, as a small picture."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        chromium = shutil.which("chromium") or shutil.which("chromium-browser")
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        tab = browser.new_page(viewport={"width": 1200, "height": 900})
        tab.goto(page.resolve().as_uri())
        tab.wait_for_selector("html[data-ready]")
        tab.screenshot(path=out)
        browser.close()
    with Image.open(out) as picture:
        small = picture.convert("RGB").resize((800, 600), Image.Resampling.LANCZOS)
    small.quantize(128).save(out, optimize=True)


if __name__ == "__main__":
    main()
