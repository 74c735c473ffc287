"""Hashes of arrays, plain values and files."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unbend.disk.memory_maps import check_whole, forget_pages

__all__ = [
    "hash_array",
    "hash_bytes",
    "hash_file",
    "hash_lines",
    "hash_samples",
    "hash_values",
]

_BYTES = 16  # a collision among a million entries has probability 1e-27
_CHUNK = 1 << 20  # numbers or bytes hashed at a time


def hash_array(X: Any) -> str:
    """Hash of the numbers, type and shape of an array or a tensor as 32 hex digits.

    A memory map is read in pieces, so that it is never in memory as a whole.

    >>> hash_array(np.arange(6)) == hash_array(np.arange(6).reshape(2, 3))
    False
    """
    array: NDArray[Any] = X.detach().cpu().numpy() if hasattr(X, "detach") else X
    digest = hashlib.blake2b(f"{array.dtype.str}{array.shape}".encode(), digest_size=_BYTES)
    rows = array if array.ndim else array[None]
    step = max(1, _CHUNK // max(1, int(np.prod(rows.shape[1:]))))
    for start in range(0, len(rows), step):
        check_whole(array)
        digest.update(np.ascontiguousarray(rows[start : start + step]).data)
        if step < len(rows):
            forget_pages(array)
    return digest.hexdigest()


def hash_samples(X: NDArray[Any]) -> list[str]:
    """Hash of each row or image.

    >>> a, b, c = hash_samples(np.array([[1, 2], [1, 2], [1, 3]]))
    >>> a == b, a == c
    (True, False)
    """
    return [hash_array(x) for x in X]


def hash_values(*values: Any) -> str:
    """Hash of plain values: numbers, strings, lists, and dicts in any order of their keys.

    >>> hash_values({"a": 1, "b": 2}) == hash_values({"b": 2, "a": 1})
    True
    """
    text = json.dumps(values, sort_keys=True, default=str)
    return hashlib.blake2b(text.encode(), digest_size=_BYTES).hexdigest()


def hash_bytes(content: bytes, algorithm: str = "sha256") -> str:
    """Hash of bytes by a named algorithm, as ``sha256sum`` prints it.

    >>> hash_bytes(b"", "md5")
    'd41d8cd98f00b204e9800998ecf8427e'
    """
    return hashlib.new(algorithm, content, usedforsecurity=False).hexdigest()


def hash_file(path: str | Path, algorithm: str = "sha256") -> str:
    """Hash of the bytes of a file, as ``sha256sum`` prints it."""
    digest = hashlib.new(algorithm, usedforsecurity=False)
    with open(path, "rb") as file:
        while block := file.read(_CHUNK):
            digest.update(block)
    return digest.hexdigest()


def hash_lines(lines: Iterable[str]) -> str:
    """SHA-256 of many strings, in order.

    >>> hash_lines(["ab", "c"]) == hash_lines(["a", "bc"])
    False
    """
    digest = hashlib.sha256()
    for line in lines:
        digest.update(line.encode(errors="backslashreplace") + b"\n")
    return digest.hexdigest()
