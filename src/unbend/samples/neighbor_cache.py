"""Cache nearest-neighbour searches on disk, so the same vectors are searched only once."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from unbend.disk import Cache, hash_array, hash_values
from unbend.progress import Progress, silent
from unbend.samples.approximate import has_faiss
from unbend.samples.neighbors import nearest_neighbors
from unbend.threads import allowed_threads

__all__ = ["NeighborCache"]

_VERSION = 2  # increase when the search returns different neighbours


class NeighborCache:
    """:func:`nearest_neighbors` with a cache on disk.

    Parameters
    ----------
    folder : path
        Created on first write. It may be deleted at any time.
    least : int
        Searches over fewer rows are not cached; they are fast enough.
    most : int
        Maximum number of cached searches; the least recently used are deleted.

    Examples
    --------
    >>> import tempfile
    >>> search = NeighborCache(tempfile.mkdtemp(), least=2)
    >>> search(torch.tensor([[0.0], [1.0], [5.0]]), 1).ravel().tolist(), search.found
    ([1, 0, 1], False)
    >>> search(torch.tensor([[0.0], [1.0], [5.0]]), 1).ravel().tolist(), search.found
    ([1, 0, 1], True)
    """

    def __init__(self, folder: str | Path, least: int = 5_000, most: int = 50) -> None:
        self.cache, self.least = Cache(folder, most), least
        self.found = False  # whether the last call was a cache hit

    def __call__(
        self, X: Tensor, k: int, *, metric: str = "euclidean", progress: Progress = silent
    ) -> Tensor:
        """Indices (n, k) of each row's nearest other rows."""
        self.found = False
        if len(X) < max(2, self.least) or k < 1:
            return nearest_neighbors(X, k, progress=progress, metric=metric)
        # The key covers everything that can change the result, even the order of ties.
        machine = (X.device.type, torch.__version__, allowed_threads(), has_faiss())
        key = hash_values(_VERSION, hash_array(X), k, metric, machine)
        kept = self.cache.get(key)
        if kept is not None:
            self.found = True
            return torch.from_numpy(kept.arrays["neighbors"]).to(X.device, torch.long)
        neighbors = nearest_neighbors(X, k, progress=progress, metric=metric)
        self.cache.put(key, {"neighbors": neighbors.to("cpu", torch.int32).numpy()})
        return neighbors
