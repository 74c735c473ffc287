"""Checkpoints on disk: written atomically, verified when read, never pickled.

Layout: ``PATH/checkpoint-00000012/state.safetensors`` and ``state.json``. The JSON holds the
hash of both, which reveals truncated files and flipped bits; a damaged checkpoint is
skipped in favour of the previous one.
"""

from __future__ import annotations

import json
import shutil
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from unbend.disk import atomic_directory, atomic_write, hash_bytes
from unbend.disk.files import remove_leftovers
from unbend.exceptions import UnbendWarning

if TYPE_CHECKING:
    from unbend.training.stage1_cache import Stage1Cache

__all__ = ["Checkpoint", "Checkpoints"]

FORMAT = 3
_TENSORS, _VALUES = "state.safetensors", "state.json"
_PREFIX = "checkpoint-"


class Checkpoint(NamedTuple):
    """Tensors and plain values of one checkpoint."""

    tensors: dict[str, Tensor]
    values: dict[str, Any]


class Checkpoints:
    """The directory with the last few checkpoints of a run.

    Parameters
    ----------
    path : path
        Created at the first save. With several processes, all of them must be able to read it.
    every : float, default=5
        Minutes between two checkpoints; 0 saves after every step. The end of a stage and an
        interrupt are always saved.
    keep : int, default=2
        How many checkpoints to keep; with two, a run survives damage to the newest.
    stage1 : Stage1Cache, optional
        Where a run without a checkpoint looks for the end of stage 1 of another run, and stores
        its own.
    """

    def __init__(
        self,
        path: str | Path,
        every: float = 5.0,
        keep: int = 2,
        stage1: Stage1Cache | None = None,
    ) -> None:
        if not every >= 0:
            raise ValueError(f"`every` of Checkpoints must be >= 0 minutes, got {every!r}; try 5")
        if keep < 1:
            raise ValueError(f"`keep` of Checkpoints must be >= 1, got {keep!r}; try 2")
        self.path, self.every, self.keep = Path(path), float(every), int(keep)
        self.stage1 = stage1
        if self.path.exists() and not self.path.is_dir():
            raise ValueError(f"{str(path)!r} is a file; name a directory for the checkpoints")
        self._last_save = time.monotonic()

    def due(self) -> bool:
        """Whether it is time for the next checkpoint."""
        return time.monotonic() - self._last_save >= 60 * self.every

    def save(self, tensors: dict[str, Tensor], values: dict[str, Any]) -> None:
        """Write a checkpoint atomically, then delete the oldest ones."""
        content = save(tensors)
        text = json.dumps({"format": FORMAT, "sha256": _hash(content, values), **values})
        there = self._numbers()
        with atomic_directory(self._folder(there[-1] + 1 if there else 0)) as folder:
            atomic_write(folder / _TENSORS, content)
            atomic_write(folder / _VALUES, text)
        for number in there[: max(0, len(there) + 1 - self.keep)]:
            shutil.rmtree(self._folder(number), ignore_errors=True)
        self._last_save = time.monotonic()

    def newest(self) -> Checkpoint | None:
        """The newest intact checkpoint, or None; warns of damaged ones."""
        for number in reversed(self._numbers()):
            folder = self._folder(number)
            try:
                return _read(folder)
            except _Damaged as damage:
                warnings.warn(
                    f"checkpoint {str(folder)!r} is damaged ({damage}); skipped",
                    UnbendWarning,
                    stacklevel=3,
                )
        return None

    def identity(self) -> dict[str, Any]:
        """Identity of the saved run as flat names; empty if there is no checkpoint."""
        found = self.newest()
        return {} if found is None else dict(found.values["identity"])

    def clear_leftovers(self) -> None:
        """Delete partial files that a killed process left behind."""
        remove_leftovers(self.path, _PREFIX)

    def _folder(self, number: int) -> Path:
        return self.path / f"{_PREFIX}{number:08d}"

    def _numbers(self) -> list[int]:
        if not self.path.is_dir():
            return []
        names = (p.name.removeprefix(_PREFIX) for p in self.path.glob(f"{_PREFIX}*"))
        return sorted(int(name) for name in names if name.isdecimal())


def _hash(content: bytes, values: dict[str, Any]) -> str:
    return hash_bytes(json.dumps([hash_bytes(content), values]).encode())


class _Damaged(ValueError):
    """Raised for a checkpoint that cannot be used; the message says why."""


def _read(folder: Path) -> Checkpoint:
    try:
        values = json.loads((folder / _VALUES).read_bytes())
        content = (folder / _TENSORS).read_bytes()
    except (OSError, ValueError, RecursionError) as error:
        raise _Damaged(error) from error
    if not isinstance(values, dict):
        raise _Damaged(f"{_VALUES} is not an object")
    if values.get("format") != FORMAT:
        raise ValueError(
            f"checkpoint {str(folder)!r} has format {values.get('format')!r}, this version reads "
            f"{FORMAT}; name another directory"
        )
    del values["format"]
    if values.pop("sha256", None) != _hash(content, values):
        raise _Damaged("it is not what was written")
    try:
        return Checkpoint(load(content), values)
    except SafetensorError as error:
        raise _Damaged(error) from error
