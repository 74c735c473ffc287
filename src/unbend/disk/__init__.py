"""Everything about files: atomic writes, hashes, the cache, locks, and default directories."""

from unbend.disk.arrow import has_arrow, need_arrow
from unbend.disk.cache import Cache
from unbend.disk.files import atomic_directory, atomic_open, atomic_write, to_json
from unbend.disk.hashes import (
    hash_array,
    hash_bytes,
    hash_file,
    hash_lines,
    hash_samples,
    hash_values,
)
from unbend.disk.locks import Locked, locked
from unbend.disk.memory_maps import check_whole, forget_pages
from unbend.disk.places import default_cache_dir, default_data_dir

__all__ = [
    "Cache",
    "Locked",
    "atomic_directory",
    "atomic_open",
    "atomic_write",
    "check_whole",
    "default_cache_dir",
    "default_data_dir",
    "forget_pages",
    "has_arrow",
    "hash_array",
    "hash_bytes",
    "hash_file",
    "hash_lines",
    "hash_samples",
    "hash_values",
    "locked",
    "need_arrow",
    "to_json",
]
