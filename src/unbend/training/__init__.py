"""What both training stages share: optimisers, schedule, guard, checkpoints, and the loop."""

from unbend.training.batch_norm import synchronize
from unbend.training.checkpoints import Checkpoints
from unbend.training.distributed import agree, gather, is_main, n_processes, share
from unbend.training.guard import RATE_FLOOR, Guard
from unbend.training.lars import LARS
from unbend.training.loop import Terms, Watch, descend
from unbend.training.record import History, Record, hash_of
from unbend.training.schedule import fused_for, n_steps, warmup_cosine
from unbend.training.shelf import Shelf

__all__ = [
    "Checkpoints",
    "Guard",
    "RATE_FLOOR",
    "History",
    "LARS",
    "Record",
    "Shelf",
    "Terms",
    "Watch",
    "agree",
    "descend",
    "fused_for",
    "gather",
    "hash_of",
    "is_main",
    "n_processes",
    "n_steps",
    "share",
    "synchronize",
    "warmup_cosine",
]
