"""The progress of a run, and how to resume it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from torch import Tensor

from unbend.training.checkpoints import Checkpoint, Checkpoints
from unbend.training.distributed import barrier, is_main
from unbend.training.state import capture, pack, put_back, unpack

__all__ = ["History", "Record"]

History = list[dict[str, Any]]


class Resumed(NamedTuple):
    """Where a stage resumes: steps done, their rows, and whether it is finished."""

    step: int
    history: History
    finished: bool


class Record:
    """The progress of one run through its stages, kept in checkpoints.

    Parameters
    ----------
    checkpoints : Checkpoints, optional
        Without them nothing is saved and every stage starts from the beginning.
    identity : mapping
        What identifies a run, as nested plain data: config, seed, hash of the samples. A
        checkpoint with a different identity is rejected.

    Notes
    -----
    The state is the same in all processes, so only the first one writes and all of them read.
    """

    def __init__(
        self, checkpoints: Checkpoints | None = None, identity: Mapping[str, Any] | None = None
    ) -> None:
        self.checkpoints = checkpoints
        self.identity = _flat(identity or {})
        self._saved: Checkpoint | None = None
        self._history: History = []  # of finished stages
        self._finished: list[str] = []
        if checkpoints is not None:
            if is_main():
                checkpoints.clear_leftovers()
            self._saved = own = checkpoints.newest()
            if own is None and checkpoints.stage1 is not None:
                self._saved = checkpoints.stage1.find(self.identity)
            barrier()  # no process may write before all have read
            if own is not None:
                self._check_identity(own.values["identity"])

    @property
    def active(self) -> bool:
        """Whether checkpoints are saved."""
        return self.checkpoints is not None

    def reached(self, stage: str) -> bool:
        """Whether the checkpoint that this run resumes from is in that stage or a later one."""
        values = {} if self._saved is None else self._saved.values
        return stage == values.get("stage") or stage in values.get("finished", ())

    def resume(self, stage: str, parts: Mapping[str, Any]) -> Resumed:
        """Restore the parts from the checkpoint and return how much of the stage is done.

        A finished stage is not restored when a later one has begun: the later stage restores
        everything that still matters.
        """
        if self._saved is None or not self.reached(stage):
            return Resumed(0, [], False)
        tensors, values = self._saved
        finished = stage in values["finished"]
        rows = [row for row in values["history"] if row["stage"] == stage]
        if stage == values["stage"]:
            put_back(parts, unpack(tensors, values["state"]))
            self._saved = None if not finished else self._saved
        if finished:
            self._finished.append(stage)
            self._history += rows
        return Resumed(values["step"], rows, finished)

    def due(self) -> bool:
        """Whether this process should save a checkpoint now."""
        return self.checkpoints is not None and is_main() and self.checkpoints.due()

    def save(self, stage: str, step: int, parts: Mapping[str, Any], history: History) -> None:
        """Save the state after ``step`` steps of a stage."""
        if self.checkpoints is None or not is_main():
            return
        self.checkpoints.save(*self._content(stage, step, parts, history))

    def _content(
        self, stage: str, step: int, parts: Mapping[str, Any], history: History
    ) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """The tensors and values of a checkpoint."""
        tensors, state = pack(capture(parts))
        values = {
            "identity": self.identity,
            "stage": stage,
            "step": step,
            "finished": self._finished,
            "history": self._history + history,
            "state": state,
        }
        return tensors, values

    def finish(self, stage: str, step: int, parts: Mapping[str, Any], history: History) -> None:
        """Save the state at the end of a stage."""
        self._finished.append(stage)
        self._history += history
        if self.checkpoints is None or not is_main():
            return
        tensors, values = self._content(stage, step, parts, [])
        self.checkpoints.save(tensors, values)
        if self.checkpoints.stage1 is not None:
            self.checkpoints.stage1.keep(stage, self.identity, tensors, values)

    def _check_identity(self, theirs: Mapping[str, Any]) -> None:
        assert self.checkpoints is not None
        for name in sorted({*self.identity, *theirs}):
            here, there = self.identity.get(name), theirs.get(name)
            if here == there:
                continue
            what = (
                "other samples"
                if name == "samples"
                else f"`{name.removeprefix('config.')}` = {there!r}, not {here!r}"
            )
            raise ValueError(
                f"the checkpoints in {str(self.checkpoints.path)!r} belong to a run with {what}; "
                "name another directory, or delete that one"
            )


def _flat(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Flatten nested mappings to dotted names; tuples become lists, as in JSON."""
    flat: dict[str, Any] = {}
    for name, value in tree.items():
        if isinstance(value, Mapping):
            flat |= _flat(value, f"{prefix}{name}.")
        else:
            flat[f"{prefix}{name}"] = list(value) if isinstance(value, tuple) else value
    return flat
