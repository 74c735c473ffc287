"""Cache slow results on disk, so that experiments share them."""

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
    """Return the named arrays of ``compute()``, from the cache if possible.

    Parameters
    ----------
    kind : str
        Folder within the cache.
    key : JSON value
        Everything the result depends on, apart from the code of ``rooms``.
    compute : callable
        Does the work.
    cached : bool
        False always does the work and stores nothing.
    rooms : tuple of str
        Parts of the package whose source the result depends on; it is part of the key.
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
