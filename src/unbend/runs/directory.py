"""The run directory: what one clustering leaves behind."""

from __future__ import annotations

import csv
import io
import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unbend.runs.files import TEMPORARY, atomic_write, to_json

__all__ = ["RunDirectory"]


class RunDirectory:
    """A directory with ``labels.csv``, ``history.csv``, ``config.json`` and ``metrics.json``.

    Parameters
    ----------
    path : path
        Created at the first write. A directory that holds something other than a run is refused.
    overwrite : bool, default=False
        Allow an earlier run there to be replaced. It stays until the first file of the new run
        is written and goes as a whole then: files of two runs never lie side by side.
    """

    FILES = ("labels.csv", "history.csv", "config.json", "metrics.json", "model")

    def __init__(self, path: str | Path, *, overwrite: bool = False) -> None:
        self.path = Path(path)
        if self.path.exists() and not self.path.is_dir():
            raise ValueError(f"{str(path)!r} is a file; name a directory for the run")
        there = {p.name for p in self.path.iterdir()} if self.path.exists() else set()
        there = {name for name in there if not _is_leftover(name)}
        foreign = there - set(self.FILES)
        if foreign:
            raise ValueError(
                f"{str(path)!r} holds files of something else ({sorted(foreign)[0]!r}); "
                "name a new directory"
            )
        if there and not overwrite:
            raise ValueError(
                f"{str(path)!r} holds a run already; name a new directory or pass --overwrite"
            )
        _check_writable(self.path)
        # By inode: a file or model that this run puts in the same place is not old.
        old = self.path.iterdir() if self.path.exists() else ()
        self._old = {p: p.lstat().st_ino for p in old}

    def write_labels(
        self,
        samples: Sequence[str],
        labels: NDArray[np.int64],
        probability: NDArray[np.floating],
        outlier_score: NDArray[np.floating],
    ) -> None:
        """``labels.csv``: a row per sample."""
        rows = zip(
            map(_cell, samples),
            labels.tolist(),
            (f"{p:.6f}" for p in probability),
            (f"{s:.6f}" for s in outlier_score),
            strict=True,
        )
        self._write_csv("labels.csv", ["sample", "cluster", "probability", "outlier_score"], rows)

    def write_history(self, history: Sequence[Mapping[str, Any]]) -> None:
        """``history.csv``: a row per step; empty where a stage has no such number."""
        names = list(history[0]) if history else ["stage", "step"]
        rows = ([_blank(row[name]) for name in names] for row in history)
        self._write_csv("history.csv", names, rows)

    def write_json(self, name: str, tree: Mapping[str, Any]) -> None:
        """``config.json`` or ``metrics.json``."""
        self._write(name, to_json(tree, indent=2) + "\n")

    def _write_csv(self, name: str, header: list[str], rows: Iterable[Iterable[Any]]) -> None:
        text = io.StringIO(newline="")
        writer = csv.writer(text)
        writer.writerow(header)
        writer.writerows(rows)
        self._write(name, text.getvalue())

    def _write(self, name: str, text: str) -> None:
        self._clear_old()
        self.path.mkdir(parents=True, exist_ok=True)
        atomic_write(self.path / name, text)

    def _clear_old(self) -> None:
        for path, inode in self._old.items():
            if not path.exists() or path.lstat().st_ino != inode:
                continue
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()
        self._old = {}


def _check_writable(path: Path) -> None:
    """Say before the work, not after it, that its result cannot be written."""
    place = path
    while not place.exists():
        place = place.parent
    if not (place.is_dir() and os.access(place, os.W_OK | os.X_OK)):
        raise ValueError(f"cannot write a run to {str(path)!r}: {str(place)!r} is not writable")


def _is_leftover(name: str) -> bool:
    """Whether a killed run left this behind half written."""
    return name.startswith(".") and name.endswith(TEMPORARY)


def _cell(text: str) -> str:
    """A leading =, +, - or @ would run as a formula in a spreadsheet: quote it as text."""
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r")) else text


def _blank(value: Any) -> Any:
    return "" if value is None else value
