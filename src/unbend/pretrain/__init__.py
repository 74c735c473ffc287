"""Stage 1: self-supervised initialisation of the features (line 1 of Algorithm 1)."""

from unbend.pretrain.encoder import load_backbone
from unbend.pretrain.method import Stage1Method, embed_all
from unbend.pretrain.methods.tcr import tcr_objective
from unbend.pretrain.registry import METHODS, PretrainConfig, build_method, is_path
from unbend.pretrain.stage import pretrain

__all__ = [
    "METHODS",
    "Stage1Method",
    "PretrainConfig",
    "build_method",
    "embed_all",
    "is_path",
    "load_backbone",
    "pretrain",
    "tcr_objective",
]
