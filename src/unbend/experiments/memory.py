"""Results of long work kept on disk, so that experiments share it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from unbend.data import default_cache_dir
from unbend.experiments.provenance import ALGORITHM, code_hash, commit, use_kept
from unbend.runs import read_model, write_model

__all__ = ["Arrays", "remember"]

Arrays = dict[str, NDArray[Any]]


def remember(
    kind: str,
    key: Any,
    compute: Callable[[], Arrays],
    *,
    cached: bool = True,
    rooms: tuple[str, ...] = ALGORITHM,
) -> Arrays:
    """Named arrays of ``compute()``, or what it returned for this key before.

    Parameters
    ----------
    kind : str
        Folder within the cache.
    key : JSON value
        Everything the result depends on, beside the code of ``rooms``.
    compute : callable
        Does the work.
    cached : bool
        False always does the work and keeps nothing.
    rooms : tuple of str
        Parts of the package whose source the result depends on; other source, another key.
    """
    if not cached:
        return compute()
    text = json.dumps([code_hash(*rooms), key], sort_keys=True, default=str)
    name = hashlib.sha256(text.encode()).hexdigest()[:24]
    place = Path(default_cache_dir()) / "experiments" / kind / name
    if place.is_dir():
        tensors, values = read_model(place)
        use_kept(str(values["commit"]))
        return {name: t.numpy() for name, t in tensors.items()}
    arrays = {name: np.asarray(a) for name, a in compute().items()}
    place.parent.mkdir(parents=True, exist_ok=True)
    tensors = {name: torch.from_numpy(np.array(a)) for name, a in arrays.items()}
    write_model(place, tensors, {"commit": commit(), "key": text})
    return arrays
