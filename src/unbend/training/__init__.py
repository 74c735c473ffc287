"""What both training stages share: optimisers, schedule, guard, checkpoints, and the loop."""

from unbend.training.batch_norm import synchronize
from unbend.training.checkpoints import Checkpoints
from unbend.training.distributed import agree, gather, is_main, n_processes, share
from unbend.training.guard import RATE_FLOOR, Guard
from unbend.training.lars import LARS
from unbend.training.loop import Stage, Terms, Tools, descend
from unbend.training.record import History, Record
from unbend.training.schedule import fused_for, n_steps, steps_of, warmup_cosine
from unbend.training.stage1_cache import Stage1Cache

__all__ = [
    "Checkpoints",
    "Guard",
    "RATE_FLOOR",
    "History",
    "LARS",
    "Record",
    "Stage",
    "Stage1Cache",
    "Terms",
    "Tools",
    "agree",
    "descend",
    "fused_for",
    "gather",
    "is_main",
    "n_processes",
    "n_steps",
    "share",
    "steps_of",
    "synchronize",
    "warmup_cosine",
]
