"""What one run leaves for the next."""

from __future__ import annotations

import torch

from unbend.data import default_cache_dir
from unbend.devices import make_fabric
from unbend.experiments.provenance import ALGORITHM, code_hash
from unbend.training import Shelf
from unbend.workflows.processes import n_processes

__all__ = ["stage1_shelf"]


def stage1_shelf(device: str) -> Shelf | None:
    """Ends of stage 1 in the user's cache: another number of clusters starts with stage 2.

    Their key holds the code and all that can change the last digit, so that the labels are those
    of a run without it. None with several processes, which would have to agree on it.
    """
    if n_processes() > 1:
        return None
    arithmetic = {
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "device": str(make_fabric(device).device),
    }
    return Shelf(default_cache_dir() / "stage1", {"code": code_hash(*ALGORITHM), **arithmetic})
