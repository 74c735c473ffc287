"""What both training stages share: optimisers, schedule, guard, and the loop."""

from unbend.training.guard import Guard
from unbend.training.lars import LARS
from unbend.training.loop import History, Terms, descend
from unbend.training.schedule import n_steps, warmup_cosine

__all__ = ["Guard", "History", "LARS", "Terms", "descend", "n_steps", "warmup_cosine"]
