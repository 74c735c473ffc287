"""The run directory: the results of one clustering, published atomically.

An unfinished run is kept in ``checkpoints/``: ``run.json`` holds its identity and stage,
``training/`` the state of training, ``results/`` the results so far. Complete results replace an
earlier run, and ``checkpoints/`` is deleted. ``manifest.json`` lists every file with its hash; a
file that no manifest lists is never deleted.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from unbend.disk import Locked, atomic_write, locked, to_json
from unbend.disk.files import is_leftover, move_files, remove, remove_leftovers
from unbend.runs.labels import write_csv
from unbend.runs.manifest import (
    CURATED,
    JOURNAL,
    MANIFEST,
    PROGRAM,
    hash_files,
    listed_files,
    read_json,
)

__all__ = ["RunDirectory", "run_lock"]

_CHECKPOINTS, _STATE, _LOCK = "checkpoints", "run.json", ".lock"
_SCRATCH = (_STATE, "training", "results")
_FORMAT = 2
# Stages of a run. In the last one only temporary files remain.
_TRAINING, _WRITING, _PUBLISHING, _OVER = "training", "writing", "publishing", "over"


class RunDirectory:
    """A directory with the labels, the model and the record of one run, locked for one writer.

    Use it as a context manager; it releases the lock at the end.

    Parameters
    ----------
    path : path
        Created by :meth:`begin`. A directory with files other than a run is refused.
    overwrite : bool, default=False
        Replace an earlier run. It is kept until the new one is complete.
    resume : bool, default=False
        Continue an unfinished run. A finished run is left as it is.
    """

    def __init__(self, path: str | Path, *, overwrite: bool = False, resume: bool = False) -> None:
        self.path = Path(path)
        self._overwrite, self._resume = overwrite, resume
        self._held = ExitStack()
        self._began = False
        self._made: list[Path] = []  # directories created by this run, the deepest first
        self._look()
        _check_writable(self.path)

    def __enter__(self) -> RunDirectory:
        return self

    def __exit__(self, *error: object) -> None:
        self._held.close()

    @property
    def checkpoints(self) -> Path:
        """Folder of an unfinished run."""
        return self.path / _CHECKPOINTS

    @property
    def results(self) -> Path:
        """Folder of the results until they are complete."""
        return self.checkpoints / "results"

    @property
    def finished(self) -> bool:
        """Whether the directory holds a finished run."""
        stage = self._stage()
        return stage == _PUBLISHING or (stage in (None, _OVER) and (self.path / MANIFEST).exists())

    def check_free(self) -> None:
        """Raise if another process is writing here; call it before any long work."""
        if (self.path / _LOCK).exists():
            with run_lock(self.path):
                pass

    # ------------------------------------------------------------------ begin, continue, end

    def begin(self, identity: Mapping[str, Any]) -> bool:
        """Lock the directory; return whether an earlier process already began the results.

        ``identity`` holds everything that determines the labels. An unfinished run with another
        identity is not continued.
        """
        self._lock()
        self._complete()
        if self.finished and not self._overwrite:
            raise ValueError(_occupied(self.path, unfinished=False))
        stage = self._stage()
        if self._resume and stage in (_TRAINING, _WRITING):
            self._check_same(self._state().get("identity"), identity)
            remove_leftovers(self.checkpoints)
            remove_leftovers(self.results)
            return stage == _WRITING
        self._discard()
        self._began = True
        self.checkpoints.mkdir(exist_ok=True)
        self._mark(_TRAINING, identity)
        return False

    def begin_results(self, identity: Mapping[str, Any]) -> None:
        """Record that training is done and results follow."""
        self.results.mkdir(exist_ok=True)
        self._mark(_WRITING, identity)

    def has_begun_results(self) -> bool:
        """Whether :meth:`begin_results` was called, in this process or an earlier one."""
        return self._stage() == _WRITING

    def publish(self) -> None:
        """Replace the earlier run by the results; the last step of a run."""
        manifest = read_json(self.results / MANIFEST)
        ours = {"program": PROGRAM, **manifest, "files": hash_files(self.results)}
        self.write_json(MANIFEST, ours)
        self._mark(_PUBLISHING, self._state()["identity"])
        self._complete()

    def complete(self) -> None:
        """Complete the work of a process that died while publishing."""
        if self.checkpoints.exists():
            self._lock()
            self._complete()

    def abandon(self) -> None:
        """Delete a run that this object began; keep one that it continued."""
        if self._began:
            self._discard()
        self._held.close()
        for path in self._made:
            if any(path.iterdir()):
                break
            path.rmdir()

    def check_finished(self, identity: Mapping[str, Any], found: object) -> None:
        """Raise if the finished run has another identity."""
        self._check_same(found, identity)

    def _check_same(self, old: object, new: Mapping[str, Any]) -> None:
        old, new = old if isinstance(old, dict) else {}, json.loads(to_json(new))
        for key in sorted({*old, *new}):
            if old.get(key) != new.get(key):
                raise ValueError(
                    f"the run in {str(self.path)!r} has {key} = {old.get(key)!r}, this call "
                    f"{new.get(key)!r}; resume with the same options, or pass --overwrite"
                )

    def _lock(self) -> None:
        self._held.close()
        made = [p for p in (self.path, *self.path.parents) if not p.exists()]
        self.path.mkdir(parents=True, exist_ok=True)
        self._held.enter_context(run_lock(self.path))
        self._made = made
        self._look(held=True)  # another process may have changed the directory

    # ------------------------------------------------------------------ what is there

    def _look(self, held: bool = False) -> None:
        """Raise if the directory must not be written."""
        if self.path.exists() and not self.path.is_dir():
            raise ValueError(f"{str(self.path)!r} is a file; name a directory for the run")
        there = {p.name for p in self.path.iterdir()} if self.path.exists() else set()
        stage = self._stage()
        ours = {_LOCK, MANIFEST, *([_CHECKPOINTS] if stage is not None else [])}
        if MANIFEST in there:
            ours |= set(CURATED)
        files = listed_files(self.path)
        if stage == _PUBLISHING:
            files |= listed_files(self.results)
        foreign = there - ours - {Path(name).parts[0] for name in files}
        foreign |= {name for name in _inside(self.path, files) if name not in files}
        if MANIFEST in there and not files:
            foreign.add(MANIFEST)
        if stage is not None:
            foreign |= {f"{_CHECKPOINTS}/{name}" for name in self._strangers()}
        if foreign:
            raise ValueError(
                f"{str(self.path)!r} holds other files ({min(foreign)!r}); name a new directory"
            )
        if self._overwrite and JOURNAL in there:
            raise ValueError(
                f"{str(self.path)!r} holds corrections ({JOURNAL!r}), which a new run would lose; "
                "move them away, or name a new directory"
            )
        unfinished = stage in (_TRAINING, _WRITING, _PUBLISHING)
        if (unfinished or files) and not self._overwrite and not self._resume:
            if not held:
                self.check_free()  # a run that is being written must not be resumed
            raise ValueError(_occupied(self.path, unfinished=unfinished))

    def _strangers(self) -> set[str]:
        """Names in ``checkpoints/`` that no run writes."""
        there = {p.name for p in self.checkpoints.iterdir()}
        ours = tuple(f".{name}." for name in _SCRATCH)
        return {n for n in there - {*_SCRATCH} if not (is_leftover(n) and n.startswith(ours))}

    def _stage(self) -> str | None:
        """Stage of the run in ``checkpoints/``; None if there is none."""
        if not (self.checkpoints / _STATE).is_file():
            # A process died before it wrote its identity; there is no work to lose.
            empty = self.checkpoints.is_dir() and not self.checkpoints.is_symlink()
            empty = empty and all(is_leftover(p.name) for p in self.checkpoints.iterdir())
            return _OVER if empty else None
        state = self._state()
        if state.get("format") != _FORMAT:
            raise ValueError(
                f"{str(self.path)!r} holds an unfinished run of another version; delete its "
                f"folder {_CHECKPOINTS!r}, or name a new directory"
            )
        return str(state.get("stage"))

    def _state(self) -> dict[str, Any]:
        path = self.checkpoints / _STATE
        try:
            state = json.loads(path.read_text(encoding="utf-8"))
            if not isinstance(state, dict) or not isinstance(state.get("identity"), dict):
                raise ValueError("it is not the state of a run")
        except (ValueError, RecursionError) as error:
            raise ValueError(
                f"{str(path)!r} is damaged: {error}; delete the folder {str(path.parent)!r} and "
                "start again"
            ) from error
        return state

    def _mark(self, stage: str, identity: Mapping[str, Any]) -> None:
        tree = {"format": _FORMAT, "stage": stage, "identity": identity}
        atomic_write(self.checkpoints / _STATE, to_json(tree, indent=2) + "\n")

    def _complete(self) -> None:
        """Publish complete results and remove old files; safe to repeat after a kill."""
        if self._stage() == _PUBLISHING:
            if (self.results / MANIFEST).exists():
                self._remove_old()
                move_files(self.results, self.path, last=MANIFEST)
            self._discard()
        elif self._stage() == _OVER:
            self._discard()

    def _remove_old(self) -> None:
        """Delete the files listed in the manifest of the earlier run, then the manifest."""
        for name in listed_files(self.path):
            place = self.path / name
            place.unlink(missing_ok=True)
            for folder in place.parents:
                if folder == self.path or not folder.is_dir() or any(folder.iterdir()):
                    break
                folder.rmdir()
        (self.path / MANIFEST).unlink(missing_ok=True)

    def _discard(self) -> None:
        """Delete the scratch folder of a run, its identity file last."""
        if self._stage() is None:
            return
        if (self.checkpoints / _STATE).is_file():
            self._mark(_OVER, self._state()["identity"])
        for path in self.checkpoints.iterdir():
            if path.name != _STATE:
                remove(path)
        (self.checkpoints / _STATE).unlink(missing_ok=True)
        self.checkpoints.rmdir()

    # ------------------------------------------------------------------ files

    def write_history(self, history: Sequence[Mapping[str, Any]]) -> None:
        """``history.csv``: one row per step; cells are empty if a stage lacks that number."""
        names = list(dict.fromkeys(name for row in history for name in row)) or ["stage", "step"]
        rows = ([_blank(row.get(name)) for name in names] for row in history)
        self.write_table("history.csv", names, rows)

    def write_json(self, name: str, tree: Mapping[str, Any]) -> None:
        """``config.json``, ``metrics.json`` or ``manifest.json``."""
        atomic_write(self.results / name, to_json(tree, indent=2) + "\n")

    def write_table(self, name: str, header: list[str], rows: Iterable[Iterable[Any]]) -> None:
        """A small csv file such as ``broken.csv``."""
        write_csv(self.results / name, header, rows)


def run_lock(path: Path) -> ExitStack:
    """Hold the lock of a run directory until the context ends."""
    held = ExitStack()
    try:
        held.enter_context(locked(path / _LOCK, wait=False, remove=True))
    except Locked as error:
        raise Locked(
            f"another process is writing to {str(path)!r}; wait for it, or name another directory"
        ) from error
    return held


def _inside(path: Path, files: set[str]) -> set[str]:
    """All files in the sub-directories that contain any of the given files."""
    found = set()
    for folder in {Path(name).parts[0] for name in files if "/" in name}:
        if (path / folder).is_symlink():
            found.add(folder)
        for each in (path / folder).rglob("*"):
            if each.is_symlink() or not each.is_dir():
                found.add(each.relative_to(path).as_posix())
    return found


def _occupied(path: str | Path, *, unfinished: bool) -> str:
    if unfinished:
        return (
            f"{str(path)!r} holds an unfinished run; pass --resume to continue it, or --overwrite "
            "to start again"
        )
    return f"{str(path)!r} holds a run already; name a new directory or pass --overwrite"


def _check_writable(path: Path) -> None:
    """Raise before the work starts if its result cannot be written."""
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
