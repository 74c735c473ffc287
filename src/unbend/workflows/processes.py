"""Which of several processes this is, before they are connected. Imports nothing slow."""

from __future__ import annotations

import os

__all__ = ["is_first", "n_launched"]


def n_launched() -> int:
    """Number of processes started by torchrun; one without it."""
    return int(os.environ.get("WORLD_SIZE", 1)) if "TORCHELASTIC_RUN_ID" in os.environ else 1


def is_first() -> bool:
    """Whether this process writes files and prints for all of them."""
    return n_launched() == 1 or os.environ.get("RANK", "0") == "0"
