"""A new user's path in whatever environment runs it: cluster, report, predict, load.

``python -m tools.smoke`` needs only unbend and its dependencies.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image

import unbend


def main() -> None:
    """Raise if a step fails or its result is wrong."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        X = np.repeat(9 * np.eye(3, 6), 60, 0) + np.random.default_rng(0).normal(size=(180, 6))
        np.save(folder / "x.npy", X)
        run = folder / "run"
        _unbend("cluster", folder / "x.npy", "-k", 3, "-o", run, "-q")
        assert (run / "report.html").stat().st_size > 10_000
        _unbend("predict", run, folder / "x.npy", "-o", folder / "labels.csv", "-q")
        rows = (folder / "labels.csv").read_text(encoding="utf-8").split()[1:]
        labels = np.array([int(row.split(",")[1]) for row in rows]).reshape(3, 60)
        assert (labels == labels[:, :1]).all(), "three plain groups were not found"
        assert len(set(labels[:, 0].tolist())) == 3
        _unbend("export", run, "--format", "csv", "-o", folder / "again.csv")
        assert (folder / "again.csv").read_text() == (run / "labels.csv").read_text()
        model = unbend.load(run / "model")
        assert (model.predict(X) == labels.ravel()).all()
        _folder_of_images(folder)
    print(f"unbend {unbend.__version__} from {Path(unbend.__file__).parent} works")


def _folder_of_images(folder: Path) -> None:
    """Pixels of small images, because the encoders are an extra."""
    rng = np.random.default_rng(0)
    (folder / "images").mkdir()
    for i in range(60):
        pixels = np.clip(np.eye(3)[i % 3] * 180 + rng.normal(40, 10, (16, 16, 3)), 0, 255)
        Image.fromarray(pixels.astype(np.uint8)).save(folder / "images" / f"{i}.png")
    small = ["--encoder", "none", "--image-size", 16]
    _unbend("cluster", folder / "images", "-k", 3, *small, "-o", folder / "i", "-q")
    assert (folder / "i" / "labels.csv").is_file()


def _unbend(*words: object) -> None:
    subprocess.run([sys.executable, "-m", "unbend", *map(str, words)], check=True)


if __name__ == "__main__":
    main()
