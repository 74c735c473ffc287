"""Ends of stage 1 that runs share: the next run with another number of clusters begins after it.

A checkpoint of the end of stage 1 is kept under the hash of all that led to it: samples, seed,
settings, code, and whatever else can change the last digit. Stage 2 and the number of clusters
come later and are no part of it. A run that starts from it goes on exactly as one that was
interrupted there.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from torch import Tensor

from unbend.data.places import keep_latest
from unbend.training.checkpoints import Checkpoint, Checkpoints

__all__ = ["Shelf"]

_STAGE = "stage 1"  # and what begins so
_LATER = "config.stage2."
_METHOD = "config.pretrain.method"


class Shelf:
    """A directory of checkpoints of many runs, the ones used last kept.

    Parameters
    ----------
    path : path
        Made when something is first kept. It may be deleted at any time.
    identity : mapping
        What the states depend on beside the run's own identity: the code, the machine.
    most : int, default=20
        How many are kept.
    """

    def __init__(
        self, path: str | Path, identity: Mapping[str, Any] | None = None, most: int = 20
    ) -> None:
        if most < 1:
            raise ValueError(f"`most` of Shelf must be >= 1, got {most!r}; try 20")
        self.path, self.identity, self.most = Path(path), dict(identity or {}), int(most)

    def find(self, identity: Mapping[str, Any]) -> Checkpoint | None:
        """The end of stage 1 of a run of this identity, or None."""
        place = self._place(identity)
        if place is None or not place.is_dir():
            return None
        found = Checkpoints(place).newest()
        if found is not None:
            with suppress(OSError):  # a cache that may only be read
                os.utime(place)
        return found

    def keep(
        self, stage: str, identity: Mapping[str, Any], tensors: dict[str, Tensor], values: Any
    ) -> None:
        """Keep the state at the end of a stage, if it is stage 1; a full disk is no error."""
        place = self._place(identity)
        if place is None or not stage.startswith(_STAGE):
            return
        try:
            Checkpoints(place, keep=1).save(tensors, values)
            keep_latest((p for p in self.path.iterdir() if p.is_dir()), self.most)
        except OSError:  # the run itself is not in need of it
            return

    def _place(self, identity: Mapping[str, Any]) -> Path | None:
        """Where a run of this identity has its checkpoint; None for one that nothing identifies."""
        method = str(identity.get(_METHOD, ""))
        if os.path.exists(method):  # weights on disk, which may change under the same name
            return None
        before = {k: v for k, v in identity.items() if not k.startswith(_LATER)}
        text = json.dumps([before, self.identity], sort_keys=True)
        return self.path / hashlib.sha256(text.encode()).hexdigest()[:32]
