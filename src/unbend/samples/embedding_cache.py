"""Cache embeddings on disk by the content of the sample, so nothing is encoded twice.

Each encoder has its own cache. Its entries are shards: the hashes of some samples and their
vectors. Every shard has a unique name, so two processes never write the same file; at worst both
encode the same sample.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from unbend.disk import Cache, hash_values
from unbend.disk.cache import keep_latest
from unbend.progress import Progress, Tick, silent

__all__ = ["EmbeddingCache"]

_SHARD = 512  # samples per write; a killed process loses at most this many
_SHARDS = 20_000  # limit per encoder: ten million samples
_ENCODERS = 200  # limit; each augmented copy of the images counts as one encoder

Encode = Callable[[NDArray[np.int64]], NDArray[np.float32]]


class EmbeddingCache:
    """Vectors of samples, looked up by the content of the sample and the key of the encoder.

    Parameters
    ----------
    folder : path
        Created on first write. It may be deleted at any time.

    Examples
    --------
    >>> import tempfile
    >>> cache = EmbeddingCache(tempfile.mkdtemp())
    >>> encode = lambda missing: np.ones((len(missing), 4), dtype=np.float32)
    >>> cache.get("an encoder", ["hash of a", "hash of b"], encode).shape
    (2, 4)
    >>> cache.encoded, cache.found
    (2, 0)
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder).expanduser()
        self.encoded = 0  # samples encoded in the last call
        self.found = 0
        self._shards: dict[str, _Shards] = {}

    @property
    def neighbors(self) -> Path:
        """Folder of the neighbour cache for these embeddings."""
        return self.folder / "neighbors"

    def get(
        self,
        key: str,
        hashes: Sequence[str],
        encode: Encode,
        *,
        shard_size: int = _SHARD,
        progress: Progress = silent,
        stage: str = "encode",
    ) -> NDArray[np.float32]:
        """Vectors (n, p) of the samples with these hashes, in their order.

        Parameters
        ----------
        key : str
            Identifies encoder and preprocessing, such as ``encoder.cache_key``.
        hashes : sequence of str
            Content hash of each sample; equal hashes share one vector.
        encode : callable
            Called with the positions (m,) of samples that are not cached yet, at most
            ``shard_size`` at a time; returns their vectors (m, p).
        """
        shards = self._shards.setdefault(key, _Shards(self.folder / hash_values(key)))
        digests = [bytes.fromhex(hash_values(text)) for text in hashes]
        first = {digest: i for i, digest in reversed(list(enumerate(digests)))}
        known = shards.read(set(first))
        todo = np.array(sorted(i for d, i in first.items() if d not in known), dtype=np.int64)
        self.encoded, self.found = len(todo), len(first) - len(todo)
        for begin in range(0, len(todo), shard_size):
            part = todo[begin : begin + shard_size]
            vectors = np.ascontiguousarray(encode(part), dtype=np.float32)
            if vectors.ndim != 2 or len(vectors) != len(part):
                raise ValueError(
                    f"`encode` of EmbeddingCache.get must return ({len(part)}, p), got "
                    f"{vectors.shape}"
                )
            chosen = [digests[i] for i in part]
            shards.write(chosen, vectors)
            known.update(zip(chosen, vectors, strict=True))
            progress(Tick(stage, begin + len(part), len(todo)))
        if len(todo):
            keep_latest((p for p in self.folder.glob("*") if p != self.neighbors), _ENCODERS)
        if not digests:
            return np.empty((0, 0), dtype=np.float32)
        return np.stack([known[digest] for digest in digests])


class _Shards:
    """The shards of one encoder, with an index from sample hash to shard and row."""

    def __init__(self, folder: Path) -> None:
        self.cache = Cache(folder, most=_SHARDS)
        self._seen: set[str] = set()
        self._rows: dict[bytes, tuple[str, int]] = {}

    def read(self, wanted: set[bytes]) -> dict[bytes, NDArray[np.float32]]:
        """Vectors of the cached samples; reads only the shards that hold them."""
        self._look()
        rows: dict[str, list[tuple[bytes, int]]] = {}
        for digest in wanted & self._rows.keys():
            name, row = self._rows[digest]
            rows.setdefault(name, []).append((digest, row))
        known: dict[bytes, NDArray[np.float32]] = {}
        for name, entries in rows.items():
            shard = self.cache.get(name, "vectors")
            if shard is not None:
                known.update((digest, shard.arrays["vectors"][row]) for digest, row in entries)
        return known

    def write(self, digests: list[bytes], vectors: NDArray[np.float32]) -> None:
        """Write vectors as one shard."""
        rows = np.frombuffer(b"".join(digests), dtype=np.uint8).reshape(len(digests), -1)
        self.cache.put(uuid.uuid4().hex, {"digests": rows, "vectors": vectors})

    def _look(self) -> None:
        """Index new shards; rebuild the index if some were deleted."""
        there = self.cache.names()
        if not self._seen <= there:
            self._seen, self._rows = set(), {}
        for name in sorted(there - self._seen):
            shard = self.cache.get(name, "digests")
            if shard is not None:
                digests = (row.tobytes() for row in shard.arrays["digests"])
                self._rows.update((digest, (name, row)) for row, digest in enumerate(digests))
        self._seen = there
