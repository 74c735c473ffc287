"""Samples and their views: what goes into the network."""

from unbend.data.arrays import Scaling, as_array, prepare
from unbend.data.augment import augment
from unbend.data.embeddings import EmbeddingCache
from unbend.data.loaders import Batches
from unbend.data.named import NAMED_SETS, NamedSet, load_named
from unbend.data.neighbors import nearest_neighbors
from unbend.data.places import default_cache_dir, default_data_dir
from unbend.data.sources import Broken, Source, open_source
from unbend.data.synthetic import make_sphere_manifolds
from unbend.data.validate import check_samples
from unbend.data.views import ViewSampler

__all__ = [
    "Batches",
    "Broken",
    "EmbeddingCache",
    "NAMED_SETS",
    "NamedSet",
    "Scaling",
    "Source",
    "ViewSampler",
    "as_array",
    "augment",
    "check_samples",
    "default_cache_dir",
    "default_data_dir",
    "load_named",
    "make_sphere_manifolds",
    "nearest_neighbors",
    "open_source",
    "prepare",
]
