"""Ten random folders of photographs, as a new user has them.

Each holds 5 to 10 classes of CIFAR-10. In half of the folders all classes have the same size, 50
to 60 photographs; in the other half each has 20 to 60. They are clustered by the command that a
user would type, and compared with k-means on the same embeddings.
"""

from __future__ import annotations

import csv
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from unbend.disk import hash_array
from unbend.disk.provenance import PEERS
from unbend.experiments.benchmark.worker import fit_labels
from unbend.experiments.memory import Arrays, remember
from unbend.experiments.runner import show_progress
from unbend.metrics import Scores, chance_scores, clustering_scores
from unbend.metrics.tables import Table, file_name
from unbend.progress import Tick
from unbend.sources.named import load_named

__all__ = ["Folder", "draw_folder", "run"]

COUNT = 10
_USUAL = "lite2+mirror"  # what a folder of so few photographs gets
# list → split of CIFAR-10 and the seed of its first folder
_SPLITS = {"development": ("train", 1000), "test": ("test", 0)}
_ROOMS = (*PEERS, "estimator", "encoding.py", "sources", "workflows")
COLUMNS = (
    "folder", "classes", "photographs", "sizes",
    "MLC ACC", "MLC NMI", "MLC ARI", "k-means ACC", "k-means NMI", "k-means ARI",
    "ACC, MLC - k-means", "chance ACC",
)  # fmt: skip


@dataclass(frozen=True)
class Folder:
    """Photographs (n, 3, h, w) and their classes, which are only used for scoring."""

    images: NDArray[np.uint8]
    y: NDArray[np.int64]


def run(
    *,
    list: str = "development",
    encoder: str | None = None,
    out: Path | None = None,
    verbose: bool = True,
) -> Table:
    """Cluster the folders of a list; finished folders are not clustered again.

    ``development`` draws from the training photographs, ``test`` from the test photographs.
    ``encoder`` replaces the one that a folder gets by default.
    """
    if list not in _SPLITS:
        raise ValueError(f"`list` must be one of {', '.join(_SPLITS)}, got {list!r}")
    split, first = _SPLITS[list]
    photographs = load_named(f"cifar10:{split}", download=False)
    rows, scored = [], []
    with show_progress(verbose) as progress:
        for number in range(COUNT):
            folder = draw_folder(photographs.X, photographs.y, first + number)
            found = _labels(folder, encoder)
            pair = [clustering_scores(folder.y, found[name]) for name in ("mlc", "kmeans")]
            rows.append(_row(number + 1, folder, pair))
            scored.append(pair)
            progress(Tick("folders", number + 1, COUNT))
    rows.append(_mean_row(scored))
    caption = f"folders, {list} list: {COUNT} random folders of CIFAR-10 ({split} photographs)"
    note = _note(scored, "with nothing else set" if encoder is None else f"--encoder {encoder}")
    return Table(caption, COLUMNS, rows, [note]).saved(out, file_name("folders", list, encoder))


def draw_folder(X: NDArray[np.uint8], y: NDArray[np.int64], seed: int) -> Folder:
    """Draw 5 to 10 classes; folders with an odd seed have classes of different sizes."""
    rng = np.random.default_rng(seed)
    chosen = rng.choice(np.unique(y), rng.integers(5, 11), replace=False)
    same = np.full(len(chosen), rng.integers(50, 61))
    sizes = rng.integers(20, 61, len(chosen)) if seed % 2 else same
    rows = [
        rng.choice(np.flatnonzero(y == c), size, replace=False)
        for c, size in zip(chosen, sizes, strict=True)
    ]
    order = rng.permutation(np.concatenate(rows))  # the names of the files give nothing away
    return Folder(X[order], y[order])


def _labels(folder: Folder, encoder: str | None) -> Arrays:
    """Labels of ``unbend cluster`` and of k-means."""
    k = len(np.unique(folder.y))
    asked = [] if encoder is None else ["--encoder", encoder]

    def work() -> Arrays:
        with TemporaryDirectory() as name:
            place, vectors = Path(name) / "photographs", Path(name) / "vectors.npy"
            place.mkdir()
            for row, image in enumerate(folder.images):
                Image.fromarray(image.transpose(1, 2, 0)).save(place / f"{row:04d}.png")
            done = Path(name) / "run"
            _unbend("cluster", place, "-k", k, "-o", done, *asked, "--no-report", "-q")
            _unbend("embed", place, "-o", vectors, "--encoder", encoder or _USUAL, "-q")
            kmeans, _ = fit_labels(np.load(vectors, allow_pickle=False), "kmeans", k, 0, {})
            return {"mlc": _read_labels(done / "labels.csv"), "kmeans": kmeans}

    return remember("folders", [hash_array(folder.images), k, encoder], work, rooms=_ROOMS)


def _unbend(*arguments: object) -> None:
    """Run a command as a user would."""
    command = [sys.executable, "-m", "unbend", *map(str, arguments)]
    environment = {"OMP_WAIT_POLICY": "PASSIVE", **os.environ}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        raise OSError(f"`unbend {arguments[0]}` of a folder failed: {lines[-1]}")


def _read_labels(path: Path) -> NDArray[np.int64]:
    """Clusters in the order of the names of the files."""
    with open(path, newline="", encoding="utf-8-sig") as file:
        rows = sorted((row["sample"], int(row["cluster"])) for row in csv.DictReader(file))
    return np.array([cluster for _, cluster in rows], dtype=np.int64)


def _row(number: int, folder: Folder, pair: Sequence[Scores]) -> list[str]:
    sizes = np.unique(folder.y, return_counts=True)[1]
    shown = f"{sizes.min()} to {sizes.max()}" if np.ptp(sizes) else f"{sizes[0]}"
    cells = [f"{value:.3f}" for s in pair for value in (s.acc, s.nmi, s.ari)]
    chance = chance_scores(folder.y, folder.y).acc
    gap = f"{pair[0].acc - pair[1].acc:+.3f}"
    return [str(number), str(len(sizes)), str(len(folder.y)), shown, *cells, gap, f"{chance:.3f}"]


def _mean_row(scored: Sequence[Sequence[Scores]]) -> list[str]:
    values = np.array([[(s.acc, s.nmi, s.ari) for s in pair] for pair in scored]).mean(axis=0)
    cells = [f"{value:.3f}" for value in values.ravel()]
    return ["mean", "", "", "", *cells, f"{values[0, 0] - values[1, 0]:+.3f}", ""]


def _note(scored: Sequence[Sequence[Scores]], how: str) -> str:
    gaps = np.array([mlc.acc - kmeans.acc for mlc, kmeans in scored])
    error = gaps.std(ddof=1) / np.sqrt(len(gaps)) if len(gaps) > 1 else 0.0
    return (
        f"ACC of MLC minus k-means: {gaps.mean():+.3f} ± {error:.3f} (standard error over "
        f"folders), ahead in {int((gaps > 0).sum())} of {len(gaps)}. MLC is `unbend cluster FOLDER "
        f"-k K` {how}; k-means (ten starts) sees the same embeddings. Constants were chosen "
        "without the folders of the list `test`."
    )
