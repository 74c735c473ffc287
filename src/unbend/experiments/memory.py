"""Results of long work kept on disk, so that experiments share it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numpy.typing import NDArray

from unbend.disk import Cache, default_cache_dir, hash_values
from unbend.disk.provenance import ALGORITHM, code_hash, origin, use_kept

__all__ = ["Arrays", "remember"]

Arrays = dict[str, NDArray[Any]]
_MOST = 2000  # results of a kind


def remember(
    kind: str,
    key: Any,
    compute: Callable[[], Arrays],
    *,
    cached: bool = True,
    rooms: tuple[str, ...] = ALGORITHM,
) -> Arrays:
    """Named arrays of ``compute()``, or what it returned for this key before.

    Parameters
    ----------
    kind : str
        Folder within the cache.
    key : JSON value
        Everything the result depends on, beside the code of ``rooms``.
    compute : callable
        Does the work.
    cached : bool
        False always does the work and keeps nothing.
    rooms : tuple of str
        Parts of the package whose source the result depends on; other source, another key.
    """
    if not cached:
        return compute()
    cache = Cache(default_cache_dir() / "experiments" / kind, _MOST)
    name = hash_values(code_hash(*rooms), key)
    kept = cache.get(name)
    if kept is not None:
        use_kept(str(kept.values["commit"]))
        return kept.arrays
    arrays = compute()
    cache.put(name, arrays, {"commit": origin()})
    return arrays
