"""Stage 1: self-supervised initialisation of the features (line 1 of Algorithm 1)."""

from unbend.pretrain.stage import METHODS, pretrain
from unbend.pretrain.tcr import tcr_objective

__all__ = ["METHODS", "pretrain", "tcr_objective"]
