"""Find exact and near duplicates of images by file, perceptual hash and embedding."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.fft import dctn
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

__all__ = [
    "DuplicateGroup",
    "duplicate_note",
    "duplicate_table",
    "equal_groups",
    "group_pairs",
    "near_pairs",
    "perceptual_hashes",
]

# In how many of 64 bits the hashes of near-duplicates may differ. The same picture at another size
# or quality differs in up to 6; a crop differs in more and only counts if the embeddings agree.
_CLOSE, _SIMILAR = 6, 14
_SAME_COSINE = 0.95
_SAME_COLOUR = 25.0  # mean difference of 4 x 4 colours, of 255; tells flat images apart
_SIDE, _LOW = 32, 8


class DuplicateGroup(NamedTuple):
    """Samples that are the same or nearly so.

    ``rows`` are in ascending order. ``identical`` are those that equal another one exactly, and
    ``n_copies`` of them equal an earlier one.
    """

    rows: list[int]
    identical: frozenset[int]
    n_copies: int


def perceptual_hashes(X: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """64 bits per image (n, 3, s, s): signs of its lowest frequencies against their median."""
    found = np.empty(len(X), np.uint64)
    weights = np.uint64(1) << np.arange(64, dtype=np.uint64)
    for start in range(0, len(X), 256):
        gray = _cell_means(X[start : start + 256], _SIDE).mean(axis=1)
        low = dctn(gray, axes=(1, 2), norm="ortho")[:, :_LOW, :_LOW].reshape(len(gray), -1)
        bits = low > np.median(low[:, 1:], axis=1, keepdims=True)
        found[start : start + 256] = (bits * weights).sum(axis=1, dtype=np.uint64)
    return found


def _cell_means(X: NDArray[np.uint8], side: int) -> NDArray[np.float64]:
    """Means over a grid of side x side cells."""
    edges = np.linspace(0, X.shape[-1], side + 1).astype(int)
    edges = np.minimum(edges, X.shape[-1] - 1)[:-1]
    wide = X.astype(np.float64)
    sums = np.add.reduceat(np.add.reduceat(wide, edges, axis=2), edges, axis=3)
    count = np.maximum(1, np.diff([*edges, X.shape[-1]]))
    means: NDArray[np.float64] = sums / (count[:, None] * count[None])
    return means


def near_pairs(X: NDArray[np.uint8], embeddings: NDArray[Any] | None = None) -> NDArray[np.int64]:
    """Pairs (m, 2) of images that look the same."""
    hashes = perceptual_hashes(X)
    colours = np.concatenate(
        [_cell_means(X[i : i + 256], 4).reshape(-1, 48) for i in range(0, len(X), 256)]
    )
    unit = None
    if embeddings is not None:
        unit = embeddings / np.maximum(np.linalg.norm(embeddings, axis=1, keepdims=True), 1e-12)
    found = [np.zeros((0, 2), np.int64)]
    for rows, columns, bits in _similar_hashes(hashes):
        alike = np.abs(colours[rows] - colours[columns]).mean(axis=1) <= _SAME_COLOUR
        near = (bits <= _CLOSE) & alike
        if unit is not None:
            near |= (np.einsum("ij,ij->i", unit[rows], unit[columns]) >= _SAME_COSINE) & alike
        found.append(np.stack([rows[near], columns[near]], axis=1))
    return np.concatenate(found)


def _similar_hashes(
    hashes: NDArray[np.uint64], block: int = 512
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]]:
    """Pairs i < j of similar hashes and the number of bits in which they differ."""
    ones = np.array([bin(v).count("1") for v in range(256)], np.uint8)
    for start in range(0, len(hashes), block):
        part = hashes[start : start + block, None] ^ hashes[None, start:]
        bits = ones[part.view(np.uint8).reshape(*part.shape, 8)].sum(axis=2, dtype=np.int64)
        rows, columns = np.nonzero(np.triu(bits <= _SIMILAR, 1))
        yield rows + start, columns + start, bits[rows, columns]


def equal_groups(keys: Sequence[Any]) -> list[list[int]]:
    """Positions of equal keys, where there are several; an empty key equals nothing."""
    places: dict[Any, list[int]] = {}
    for i, key in enumerate(keys):
        if key:
            places.setdefault(key, []).append(i)
    return [rows for rows in places.values() if len(rows) > 1]


def group_pairs(n: int, pairs: NDArray[np.int64], keys: Sequence[Any]) -> list[DuplicateGroup]:
    """Connected groups of near pairs and of equal keys; an empty key equals nothing."""
    same = equal_groups(keys)
    links = [np.array([[rows[0], other] for other in rows[1:]]) for rows in same]
    every = np.concatenate([pairs, *links]) if links else pairs
    if not len(every):
        return []
    graph = coo_array((np.ones(len(every)), (every[:, 0], every[:, 1])), shape=(n, n))
    _, part = connected_components(graph, directed=False)
    return [_group(rows, keys) for rows in equal_groups((part + 1).tolist())]


def _group(rows: list[int], keys: Sequence[Any]) -> DuplicateGroup:
    equal = equal_groups([keys[i] for i in rows])
    identical = frozenset(rows[place] for places in equal for place in places)
    return DuplicateGroup(rows, identical, len(identical) - len(equal))


def duplicate_table(
    groups: Sequence[DuplicateGroup], names: Sequence[str]
) -> tuple[list[str], Iterator[list[Any]]]:
    """Header and rows of ``duplicates.csv``; the first of each group is the one that is kept."""
    rows = (
        [number, names[i], "exact" if i in group.identical else "near", "no" if place else "yes"]
        for number, group in enumerate(groups)
        for place, i in enumerate(group.rows)
    )
    return ["group", "sample", "kind", "kept"], rows


def duplicate_note(groups: Sequence[DuplicateGroup]) -> str:
    """The number of samples that repeat others, as a sentence."""
    extra = sum(len(group.rows) - 1 for group in groups)
    return f"{extra} duplicates in {len(groups)} groups, see duplicates.csv"
