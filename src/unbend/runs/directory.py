"""The run directory: what one clustering leaves behind."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unbend.runs.files import (
    TEMPORARY,
    atomic_write,
    is_leftover,
    remove,
    remove_leftovers,
    to_json,
)
from unbend.runs.labels import LabelRows, labels_file, needs_mark, write_csv

__all__ = ["RunDirectory"]

_CHECKPOINTS, _STATE = "checkpoints", "run.json"


class RunDirectory:
    """A directory with the labels, the model and the record of one run.

    While the work goes on, the directory holds ``checkpoints/``; a run without it is finished.

    Parameters
    ----------
    path : path
        Created at the first write. A directory that holds something other than a run is refused.
    overwrite : bool, default=False
        Allow an earlier run there to be replaced. Its results stay until the first result of
        the new run is written and go as a whole then: results of two runs never lie side by side.
    resume : bool, default=False
        Continue an unfinished run that is there. A finished run is left as it is.
    """

    FILES: tuple[str, ...] = (
        "labels.csv",
        "labels.parquet",
        "history.csv",
        "config.json",
        "metrics.json",
        "manifest.json",
        "model",
        "features.npy",
        "thumbnails.npy",
        "thumbnails.json",
        "broken.csv",
        "report.html",
        _CHECKPOINTS,
    )

    def __init__(self, path: str | Path, *, overwrite: bool = False, resume: bool = False) -> None:
        self.path = Path(path)
        if self.path.exists() and not self.path.is_dir():
            raise ValueError(f"{str(path)!r} is a file; name a directory for the run")
        there = {p.name for p in self.path.iterdir()} if self.path.exists() else set()
        there = {name for name in there if not is_leftover(name)}
        foreign = there - set(self.FILES)
        if foreign:
            raise ValueError(
                f"{str(path)!r} holds files of something else ({sorted(foreign)[0]!r}); "
                "name a new directory"
            )
        if there and not overwrite and not resume:
            raise ValueError(_occupied(path, unfinished=_CHECKPOINTS in there))
        _check_writable(self.path)
        self.finished = bool(there) and _CHECKPOINTS not in there
        self._resume = resume and _CHECKPOINTS in there
        self._old = self._results()
        self._made: list[Path] | None = None  # directories that `begin` made, the deepest first

    @property
    def checkpoints(self) -> Path:
        """Where training keeps its state until the run is finished."""
        return self.path / _CHECKPOINTS

    # ------------------------------------------------------------------ begin, continue, end

    def begin(self, identity: Mapping[str, Any]) -> bool:
        """Mark the run as begun; return whether its results are being written already.

        ``identity`` is all that decides the labels. An unfinished run of another identity is
        not continued.
        """
        remove_leftovers(self.path)
        remove_leftovers(self.checkpoints)
        identity = json.loads(to_json(identity))
        if self._resume and (state := self._state()) is not None:
            self._check_same(state.get("identity"), identity)
            if state.get("writing") is True:
                self._old = {}
                return True
            return False
        self._discard_checkpoints()
        self._made = [p for p in (self.path, *self.path.parents) if not p.exists()]
        self.checkpoints.mkdir(parents=True)
        self._mark(identity, writing=False)
        return False

    def begin_results(self, identity: Mapping[str, Any]) -> None:
        """Say that results follow: those of an earlier run go now."""
        self._clear_old()
        self._mark(json.loads(to_json(identity)), writing=True)

    def finish(self) -> None:
        """The last act of a run: what was needed only to continue it goes."""
        self._discard_checkpoints()
        remove_leftovers(self.path)

    def has_begun_results(self) -> bool:
        """Whether :meth:`begin_results` was called, in this process or in one that died."""
        state = self._state()
        return state is not None and state.get("writing") is True

    def abandon(self) -> None:
        """Leave nothing behind of a run that this object began; one that it continued stays."""
        if self._made is None:
            return
        self._discard_checkpoints()
        remove_leftovers(self.path)
        for path in self._made:
            if any(path.iterdir()):
                break
            path.rmdir()

    def check_finished(self, identity: Mapping[str, Any], found: object) -> None:
        """Refuse to take a finished run for one of another identity."""
        self._check_same(found, json.loads(to_json(identity)))

    def _state(self) -> dict[str, Any] | None:
        """What :meth:`begin` wrote; None when the process died before it could."""
        path = self.checkpoints / _STATE
        if not path.is_file():
            return None
        try:
            state = json.loads(path.read_text(encoding="utf-8"))
            if not isinstance(state, dict):
                raise ValueError("it is no object")
        except (ValueError, RecursionError) as error:
            raise ValueError(
                f"{str(path)!r} is damaged: {error}; start again with --overwrite"
            ) from error
        return state

    def _check_same(self, old: object, new: Mapping[str, Any]) -> None:
        old = old if isinstance(old, dict) else {}
        for key in sorted({*old, *new}):
            if old.get(key) != new.get(key):
                raise ValueError(
                    f"the run in {str(self.path)!r} has {key} = {old.get(key)!r}, this call "
                    f"{new.get(key)!r}; resume with the same options, or pass --overwrite"
                )

    def _mark(self, identity: Mapping[str, Any], *, writing: bool) -> None:
        text = to_json({"identity": identity, "writing": writing}, indent=2)
        atomic_write(self.checkpoints / _STATE, text + "\n")

    def _discard_checkpoints(self) -> None:
        if self.checkpoints.is_dir():
            # A rename first: a directory half deleted would look like a run to be continued.
            doomed = self.path / f".{_CHECKPOINTS}.{os.getpid()}{TEMPORARY}"
            self.checkpoints.rename(doomed)
            remove(doomed)

    def _results(self) -> dict[Path, int]:
        """What is there now, by inode: a file that this run puts in the same place is not old."""
        there = self.path.iterdir() if self.path.exists() else ()
        return {p: p.lstat().st_ino for p in there if p.name != _CHECKPOINTS}

    # ------------------------------------------------------------------ files

    def write_labels(
        self,
        samples: Sequence[str],
        labels: NDArray[np.int64],
        probability: NDArray[np.floating],
        outlier_score: NDArray[np.floating],
    ) -> None:
        """``labels.csv`` and ``labels.parquet``: a row per sample."""
        rows = LabelRows(samples, labels, probability, outlier_score)
        self._prepare()
        with (
            labels_file(self.path / "labels.csv", mark=needs_mark(samples)) as csv_rows,
            labels_file(self.path / "labels.parquet") as parquet_rows,
        ):
            csv_rows(rows)
            parquet_rows(rows)

    def write_history(self, history: Sequence[Mapping[str, Any]]) -> None:
        """``history.csv``: a row per step; empty where a stage has no such number."""
        names = list(dict.fromkeys(name for row in history for name in row)) or ["stage", "step"]
        rows = ([_blank(row.get(name)) for name in names] for row in history)
        self.write_table("history.csv", names, rows)

    def write_json(self, name: str, tree: Mapping[str, Any]) -> None:
        """``config.json``, ``metrics.json`` or ``manifest.json``."""
        self._write(name, to_json(tree, indent=2) + "\n")

    def write_table(self, name: str, header: list[str], rows: Iterable[Iterable[Any]]) -> None:
        """A small csv file such as ``broken.csv``."""
        self._prepare()
        write_csv(self.path / name, header, rows)

    def _write(self, name: str, text: str) -> None:
        self._prepare()
        atomic_write(self.path / name, text)

    def _prepare(self) -> None:
        self._clear_old()
        self.path.mkdir(parents=True, exist_ok=True)

    def _clear_old(self) -> None:
        for path, inode in self._old.items():
            if path.exists() and path.lstat().st_ino == inode:
                remove(path)
        self._old = {}


def _occupied(path: str | Path, *, unfinished: bool) -> str:
    if unfinished:
        return (
            f"{str(path)!r} holds an unfinished run; pass --resume to continue it, or --overwrite "
            "to start again"
        )
    return f"{str(path)!r} holds a run already; name a new directory or pass --overwrite"


def _check_writable(path: Path) -> None:
    """Say before the work, not after it, that its result cannot be written."""
    place = path
    while not place.exists():
        place = place.parent
    if not (place.is_dir() and os.access(place, os.W_OK | os.X_OK)):
        raise ValueError(
            f"cannot write a run to {str(path)!r}: {str(place)!r} is not a writable directory; "
            "name another with -o"
        )


def _blank(value: Any) -> Any:
    return "" if value is None else value
