"""Ends of stage 1 that runs share: a run with the same stage 1 starts with stage 2.

The state at the end of stage 1 is kept under the hash of all that led to it: samples, seed,
settings, code, and whatever else can change the last digit. Stage 2 and the number of clusters
come later and are no part of it. A run that starts from it goes on exactly as one that was
interrupted there.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from unbend.disk import Cache, hash_values
from unbend.training.checkpoints import Checkpoint

__all__ = ["Stage1Cache"]

_STAGE = "stage 1"  # and what begins so
_LATER = ("config.stage2.", "config.labels.")
_METHOD = "config.pretrain.method"


class Stage1Cache:
    """The ends of stage 1 of many runs.

    Parameters
    ----------
    path : path
        Made when something is first kept. It may be deleted at any time.
    identity : mapping
        What the states depend on beside the run's own identity: the code, the machine.
    most : int, default=20
        How many are kept; of more, those not used for the longest time are deleted.
    """

    def __init__(
        self, path: str | Path, identity: Mapping[str, Any] | None = None, most: int = 20
    ) -> None:
        self.cache, self.identity = Cache(path, most), dict(identity or {})

    def find(self, identity: Mapping[str, Any]) -> Checkpoint | None:
        """The end of stage 1 of a run of this identity, or None."""
        key = self._key(identity)
        kept = self.cache.get(key) if key is not None else None
        if kept is None:
            return None
        tensors = {name: torch.from_numpy(array) for name, array in kept.arrays.items()}
        return Checkpoint(tensors, kept.values)

    def keep(
        self, stage: str, identity: Mapping[str, Any], tensors: dict[str, Tensor], values: Any
    ) -> None:
        """Keep the state at the end of a stage, if it is stage 1."""
        key = self._key(identity)
        if key is not None and stage.startswith(_STAGE):
            self.cache.put(key, {name: t.cpu().numpy() for name, t in tensors.items()}, values)

    def _key(self, identity: Mapping[str, Any]) -> str | None:
        """What a run of this identity is kept under; None for one that nothing identifies."""
        if os.path.exists(str(identity.get(_METHOD, ""))):
            return None  # weights on disk, which may change under the same name
        before = {k: v for k, v in identity.items() if not k.startswith(_LATER)}
        return hash_values(before, self.identity)
