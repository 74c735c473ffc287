"""The cache of stage 1 that runs share."""

from __future__ import annotations

import torch

from unbend.devices import pick_device
from unbend.disk import default_cache_dir
from unbend.disk.provenance import ALGORITHM, code_hash
from unbend.training import Stage1Cache
from unbend.workflows.processes import n_launched

__all__ = ["stage1_cache"]


def stage1_cache(device: str) -> Stage1Cache | None:
    """Results of stage 1 in the user's cache: a run with the same stage 1 skips to stage 2.

    Their key holds the code and everything that can change the last digit, so the labels are those
    of a run without it. None with several processes, which would have to agree on it.
    """
    if n_launched() > 1:
        return None
    arithmetic = {
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "device": str(pick_device(device)),
    }
    identity = {"code": code_hash(*ALGORITHM), **arithmetic}
    return Stage1Cache(default_cache_dir() / "stage1", identity)
