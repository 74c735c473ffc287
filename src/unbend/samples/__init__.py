"""What training needs: samples as tensors, their views, neighbours and mini-batches."""

from unbend.samples.arrays import Scaling, as_array, prepare
from unbend.samples.augment import augment
from unbend.samples.directions import principal_basis, whitening_basis
from unbend.samples.embedding_cache import EmbeddingCache
from unbend.samples.graph_choice import NeighborChoice, choose_metric, near_parts
from unbend.samples.grid import pixel_side
from unbend.samples.loaders import Batches
from unbend.samples.neighbors import nearest_neighbors
from unbend.samples.reach import lasting_parts, within_reach
from unbend.samples.synthetic import make_sphere_manifolds
from unbend.samples.validate import check_samples
from unbend.samples.views import ViewSampler

__all__ = [
    "Batches",
    "EmbeddingCache",
    "NeighborChoice",
    "Scaling",
    "ViewSampler",
    "as_array",
    "augment",
    "check_samples",
    "choose_metric",
    "lasting_parts",
    "make_sphere_manifolds",
    "near_parts",
    "nearest_neighbors",
    "pixel_side",
    "prepare",
    "principal_basis",
    "whitening_basis",
    "within_reach",
]
