"""Stage 1: self-supervised initialisation of the features (line 1 of Algorithm 1)."""

from unbend.pretrain.encoder import Trained, load_backbone, train_encoder
from unbend.pretrain.method import Method, embed_all
from unbend.pretrain.published import as_published
from unbend.pretrain.registry import METHODS, build_method, is_path
from unbend.pretrain.stage import pretrain
from unbend.pretrain.tcr import tcr_objective

__all__ = [
    "METHODS",
    "Method",
    "Trained",
    "as_published",
    "build_method",
    "embed_all",
    "is_path",
    "load_backbone",
    "pretrain",
    "tcr_objective",
    "train_encoder",
]
