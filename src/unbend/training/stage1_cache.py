"""Cache the end of stage 1, so that later runs with the same stage 1 begin with stage 2.

The key is the hash of everything that the state depends on: samples, seed, settings, code, and
whatever else can change the last digit. Stage 2 and the number of clusters come later and are not
part of it. A run that starts from the cache continues exactly like one interrupted there.
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

_STAGE = "stage 1"  # prefix of the names of stages
_LATER = ("config.stage2.", "config.labels.")
_METHOD = "config.pretrain.method"


class Stage1Cache:
    """The ends of stage 1 of many runs.

    Parameters
    ----------
    path : path
        Created when the first entry is stored. It may be deleted at any time.
    identity : mapping
        What the states depend on apart from the run's own identity: the code, the machine.
    most : int, default=20
        Maximum number of entries; beyond it the least recently used are deleted.
    """

    def __init__(
        self, path: str | Path, identity: Mapping[str, Any] | None = None, most: int = 20
    ) -> None:
        self.cache, self.identity = Cache(path, most), dict(identity or {})

    def find(self, identity: Mapping[str, Any]) -> Checkpoint | None:
        """The end of stage 1 of a run with this identity, or None."""
        key = self._key(identity)
        kept = self.cache.get(key) if key is not None else None
        if kept is None:
            return None
        tensors = {name: torch.from_numpy(array) for name, array in kept.arrays.items()}
        return Checkpoint(tensors, kept.values)

    def keep(
        self, stage: str, identity: Mapping[str, Any], tensors: dict[str, Tensor], values: Any
    ) -> None:
        """Store the state at the end of a stage, if it is stage 1."""
        key = self._key(identity)
        if key is not None and stage.startswith(_STAGE):
            self.cache.put(key, {name: t.cpu().numpy() for name, t in tensors.items()}, values)

    def _key(self, identity: Mapping[str, Any]) -> str | None:
        """Cache key of a run with this identity; None if the identity does not determine it."""
        if os.path.exists(str(identity.get(_METHOD, ""))):
            return None  # weights on disk, which can change without a change of name
        before = {k: v for k, v in identity.items() if not k.startswith(_LATER)}
        return hash_values(before, self.identity)
