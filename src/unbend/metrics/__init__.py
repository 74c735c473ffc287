"""Scores against true labels, tables of them, and the geometry of a representation.

Only experiments, reports and commands may import this room, so no training code can see a true
label.
"""

from unbend.metrics.geometry import (
    SimilarityBlocks,
    cluster_ranks,
    largest_subspace_cosine,
    numerical_rank,
    similarity_blocks,
)
from unbend.metrics.neighbors import knn_accuracy
from unbend.metrics.reliability import reliability
from unbend.metrics.scores import Scores, chance_scores, clustering_accuracy, clustering_scores

__all__ = [
    "Scores",
    "SimilarityBlocks",
    "chance_scores",
    "cluster_ranks",
    "clustering_accuracy",
    "clustering_scores",
    "knn_accuracy",
    "largest_subspace_cosine",
    "numerical_rank",
    "reliability",
    "similarity_blocks",
]
