"""Embeddings on disk, by what they are of: nothing is encoded twice.

A folder per encoder holds shards, each a safetensors file with the digests of some samples and
their vectors. A shard appears as a whole under a name of its own, so a killed process leaves no
half of one and two processes never write the same; at worst both encode a sample.
"""

from __future__ import annotations

import hashlib
import os
import uuid
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import load_file, save

from unbend.data.pixels import hash_sample
from unbend.exceptions import UnbendWarning
from unbend.progress import Progress, Tick, silent

__all__ = ["EmbeddingCache", "hash_samples"]

_WIDTH = 16  # bytes of a digest: two samples of a million meet with probability 1e-27
_SHARD = 512  # samples between two writes: what a kill can cost

Encode = Callable[[NDArray[np.int64]], NDArray[np.float32]]


class EmbeddingCache:
    """Vectors of samples, looked up by the content of the sample and the key of the encoder.

    Parameters
    ----------
    folder : path
        Made when something is first written. It may be deleted at any time.

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
        self.encoded = 0  # of the last call
        self.found = 0
        self._shards: dict[Path, _Shards] = {}

    @property
    def neighbors(self) -> Path:
        """Folder for the neighbours among what is kept here."""
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
            Called with the positions (m,) of samples that are not there yet, in parts of at
            most ``shard_size``; returns their vectors (m, p).
        """
        folder = self._folder(key)
        digests = [_digest(text) for text in hashes]
        first = {digest: i for i, digest in reversed(list(enumerate(digests)))}
        known = self._read(folder, set(first))
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
            self._write(folder, chosen, vectors)
            known.update(zip(chosen, vectors, strict=True))
            progress(Tick(stage, begin + len(part), len(todo)))
        if not digests:
            return np.empty((0, 0), dtype=np.float32)
        return np.stack([known[digest] for digest in digests])

    def _folder(self, key: str) -> Path:
        return self.folder / hashlib.blake2b(key.encode(), digest_size=_WIDTH).hexdigest()

    def _read(self, folder: Path, wanted: set[bytes]) -> dict[bytes, NDArray[np.float32]]:
        """Vectors of those that are there, from the shards that hold them and no others."""
        where = self._shards.setdefault(folder, _Shards(folder))
        where.look()
        rows: dict[str, list[tuple[bytes, int]]] = {}
        for digest in wanted & where.rows.keys():
            name, row = where.rows[digest]
            rows.setdefault(name, []).append((digest, row))
        known: dict[bytes, NDArray[np.float32]] = {}
        for name, entries in rows.items():
            try:
                vectors = load_file(folder / name)["vectors"]
                known.update((digest, vectors[row]) for digest, row in entries)
            except (SafetensorError, KeyError, IndexError, OSError):  # deleted meanwhile
                where.forget()
        return known

    def _write(self, folder: Path, digests: list[bytes], vectors: NDArray[np.float32]) -> None:
        rows = np.frombuffer(b"".join(digests), dtype=np.uint8).reshape(-1, _WIDTH)
        content = save({"digests": np.ascontiguousarray(rows), "vectors": vectors})
        folder.mkdir(parents=True, exist_ok=True)
        name = uuid.uuid4().hex
        temporary = folder / f".{name}.tmp"
        try:
            with open(temporary, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, folder / f"{name}.safetensors")
        finally:
            temporary.unlink(missing_ok=True)


class _Shards:
    """Which shard of a folder holds which sample, read once from each."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.forget()

    def forget(self) -> None:
        """Read everything anew next time."""
        self.rows: dict[bytes, tuple[str, int]] = {}
        self._seen: set[str] = set()

    def look(self) -> None:
        """Take in the shards that have come."""
        there = {path.name for path in self.folder.glob("*.safetensors")}
        if not self._seen <= there:
            self.forget()
        for name in sorted(there - self._seen):
            self._seen.add(name)
            digests = _read_digests(self.folder / name)
            self.rows.update((digest, (name, row)) for row, digest in enumerate(digests))


def _read_digests(path: Path) -> list[bytes]:
    """Whose vectors a shard holds; nobody's if it is damaged, which is said."""
    try:
        with safe_open(path, framework="numpy") as shard:
            vectors = shard.get_slice("vectors")
            digests = [row.tobytes() for row in shard.get_tensor("digests")]
            if vectors.get_dtype() == "F32" and vectors.get_shape()[0] == len(digests):
                return digests
    except (SafetensorError, OSError):
        pass
    warnings.warn(f"{str(path)!r} is damaged and ignored; delete it", UnbendWarning, stacklevel=5)
    return []


def hash_samples(X: NDArray[Any]) -> list[str]:
    """Content hash of each row or image: its bytes, its shape and its kind of number.

    >>> a, b, c = hash_samples(np.array([[1, 2], [1, 2], [1, 3]]))
    >>> a == b, a == c
    (True, False)
    """
    return [hash_sample(x) for x in X]  # as sources do: what they hashed is known here


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode(), digest_size=_WIDTH).digest()
