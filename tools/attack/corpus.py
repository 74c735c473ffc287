"""Good files that the attack damages: arrays, tables, images, runs, encoders."""

from __future__ import annotations

import os
import shutil
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
from PIL import Image
from safetensors.numpy import save_file

from tools.attack.processes import call
from unbend.explore.acts import Merge, Move, Rename, Split, Undo
from unbend.explore.journal import JOURNAL, Journal
from unbend.runs import read_labels
from unbend.training.checkpoints import Checkpoints

__all__ = ["QUICK", "UNFINISHED", "Corpus", "make_corpus"]

QUICK = (
    "--set", "pretrain.epochs=1", "--set", "pretrain.min_steps=2", "--set", "stage2.epochs=1",
    "--set", "stage2.min_steps=2", "-q",
)  # fmt: skip
# A run that is killed at its first checkpoint, after stage 1.
UNFINISHED = ("cluster", "{corpus}/x.npy", "-k", "4", "-o", "unfinished", "--no-report", *QUICK)
_IMAGES = ("png", "jpg", "gif", "webp", "bmp", "tif")


@dataclass(frozen=True)
class Corpus:
    """A folder with everything that is attacked; nothing in it is changed afterwards."""

    folder: Path

    @property
    def cache(self) -> Path:
        """A cache of the user, warm."""
        return self.folder / "cache"


def make_corpus(folder: Path) -> Corpus:
    """Write the corpus and make its runs."""
    rng = np.random.default_rng(0)
    X = (np.repeat(np.eye(4) * 9, 30, axis=0) + rng.normal(size=(120, 4))).astype(np.float32)
    np.save(folder / "x.npy", X)
    np.savez(folder / "x.npz", X=X)
    np.savez_compressed(folder / "packed.npz", X=X)
    save_file({"X": X}, folder / "x.safetensors")
    pq.write_table(pa.table({f"c{j}": X[:, j] for j in range(4)}), folder / "x.parquet")
    feather.write_feather(pa.table({f"c{j}": X[:, j] for j in range(4)}), folder / "x.feather")
    np.savetxt(folder / "x.csv", X, delimiter=",", header="c0,c1,c2,c3", comments="")
    lists = pa.FixedSizeListArray.from_arrays(pa.array(X.ravel()), 4)
    pq.write_table(pa.table({"embedding": lists}), folder / "lists.parquet")
    (folder / "y.csv").write_text("label\n" + "\n".join(str(i // 30) for i in range(120)) + "\n")
    (folder / "options.toml").write_text(
        'n-clusters = 4\nseed = 3\nencoder = "none"\nquiet = true\n\n[stage2]\neta = 0.2\n'
        "[pretrain]\nepochs = 3\n[pretrain.moco]\nqueue = 64\n"
    )
    photos = folder / "photos"
    photos.mkdir()
    for i in range(24):
        pixels = rng.integers(0, 256, (12, 12, 3), dtype=np.uint8) // 4 + 60 * (i % 3)
        kind = _IMAGES[i % len(_IMAGES)]
        Image.fromarray(pixels.astype(np.uint8)).save(photos / f"{i:02d}.{kind}")
    names = sorted(p.name for p in photos.iterdir())
    (photos / "list.csv").write_text("path\n" + "\n".join(names) + "\n")
    _runs(folder)
    return Corpus(folder)


def _runs(folder: Path) -> None:
    size = ("--image-size", "8")
    calls = [
        ("cluster", "x.npy", "-k", "4", "-o", "run", *QUICK),
        ("cluster", "photos", "-k", "3", "-o", "images", "--encoder", "none", *size, *QUICK),
        ("pretrain", "photos", "-o", "encoder", *size, *QUICK),
        ("embed", "photos", "--encoder", "encoder", "-o", "vectors.npy", "-q"),
    ]
    for arguments in calls:
        ended = call(*arguments, folder=folder)
        if ended.code:
            raise RuntimeError(f"the attack could not be prepared: {ended.err}")
    assert os.path.exists(folder / "vectors.npy")
    _unfinished(folder)
    _corrected(folder)


def _unfinished(folder: Path) -> None:
    save = Checkpoints.save

    def save_and_die(self: Checkpoints, *state: Any) -> None:
        save(self, *state)
        os.kill(os.getpid(), signal.SIGKILL)

    def prepare() -> None:
        Checkpoints.save = save_and_die  # type: ignore[method-assign]

    arguments = [a.replace("{corpus}", str(folder)) for a in UNFINISHED]
    ended = call(*arguments, folder=folder, cache=folder / "none", prepare=prepare)
    if ended.code != -signal.SIGKILL:
        raise RuntimeError(f"the attack could not be prepared: {ended.err}")


def _corrected(folder: Path) -> None:
    shutil.copytree(folder / "run", folder / "corrected")
    labels = read_labels(folder / "run" / "labels.parquet").labels
    journal = Journal(folder / "corrected" / JOURNAL, labels)
    first, second, *_ = sorted(set(labels.tolist()))
    rows = np.flatnonzero(labels == first)
    journal.record(Rename(first, "a name"))
    journal.record(Split(first, (rows[:5],)))
    journal.record(Move(rows[5:7], second))
    journal.record(Merge((first, second), first))
    journal.record(Undo())
    journal.close()
