"""Approximate nearest neighbours of many rows, through faiss."""

from __future__ import annotations

import importlib.util
import math
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unbend.progress import Progress, Tick, silent
from unbend.threads import allowed_threads

__all__ = ["Approximate", "approximate_neighbors", "has_faiss"]

_BLOCK = 8192  # queries between two ticks
_TRAINED_ON = 40  # rows per cell
_ITERATIONS = 10  # of the k-means that places the cells
_JUDGED_ON = 256  # rows
_WANTED = 0.95  # recall; more cells are searched until it is reached
_PROBES = (8, 16, 32, 64, 128)


class Approximate(NamedTuple):
    """Neighbours (n, k), their recall on a sample of rows, and how many cells were searched."""

    neighbors: Tensor
    recall: float
    probed: int
    cells: int

    def reason(self) -> str:
        """One sentence for the user."""
        return (
            f"neighbours of {len(self.neighbors)} samples by faiss: {self.probed} of {self.cells} "
            f"cells searched, recall {self.recall:.3f} against exact search of {_JUDGED_ON} of them"
        )


def has_faiss() -> bool:
    """Whether faiss is installed; it comes with the extra ``peers``."""
    return importlib.util.find_spec("faiss") is not None


def approximate_neighbors(
    X: Tensor, k: int, *, absolute: bool = False, progress: Progress = silent
) -> Approximate:
    """Indices of each row's k nearest other rows, or those of the largest |products|.

    An inverted file: k-means makes 4 √n cells, and a row is compared with the rows of the nearest
    cells only. Their number is the smallest that finds 95 % of the true neighbours of a sample of
    rows, and at most 128. The same rows give the same neighbours.
    """
    import faiss

    rows = np.ascontiguousarray(X.detach().cpu().float().numpy())
    n, p = rows.shape
    cells = max(1, min(round(4 * math.sqrt(n)), n // 8))
    kind = faiss.METRIC_INNER_PRODUCT if absolute else faiss.METRIC_L2
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(allowed_threads())
    try:
        quantizer = faiss.IndexFlatIP(p) if absolute else faiss.IndexFlatL2(p)
        index = faiss.IndexIVFFlat(quantizer, p, cells, kind)
        index.cp.niter, index.cp.seed, index.cp.min_points_per_centroid = _ITERATIONS, 1, 1
        rng = np.random.default_rng(0)
        index.train(rows[rng.permutation(n)[: _TRAINED_ON * cells]])
        index.add(rows)
        sample = np.sort(rng.permutation(n)[:_JUDGED_ON])
        recall = _choose_probes(index, rows, sample, k, absolute)
        found = np.empty((n, k), dtype=np.int64)
        for start in range(0, n, _BLOCK):
            part = np.arange(start, min(start + _BLOCK, n))
            found[part] = _search(index, rows, part, k, absolute)
            progress(Tick("neighbours", int(part[-1]) + 1, n))
    finally:
        faiss.omp_set_num_threads(before)
    return Approximate(torch.from_numpy(found).to(X.device), recall, index.nprobe, cells)


def _choose_probes(
    index: Any, rows: NDArray[np.float32], sample: NDArray[np.int64], k: int, absolute: bool
) -> float:
    """Set how many cells are searched; returns the recall on the sample."""
    products = rows[sample] @ rows.T
    near = np.abs(products) if absolute else 2 * products - np.square(rows).sum(1)
    near[np.arange(len(sample)), sample] = -np.inf
    exact = np.argpartition(-near, k - 1, axis=1)[:, :k]
    recall = 0.0
    for probes in _PROBES:
        index.nprobe = min(probes, index.nlist)
        found = _search(index, rows, sample, k, absolute)
        hits = (found[:, :, None] == exact[:, None, :]).any(2)
        recall = float(hits.mean())
        if recall >= _WANTED or probes >= index.nlist:
            break
    return recall


def _search(
    index: Any, rows: NDArray[np.float32], part: NDArray[np.int64], k: int, absolute: bool
) -> NDArray[np.int64]:
    """The k best of each row of a part, without the row itself."""
    score, found = index.search(rows[part], k + 1)
    score = score if absolute else -score
    if absolute:  # the most negative products come from the mirrored query
        mirrored, opposite = index.search(-rows[part], k + 1)
        score, found = np.hstack([score, mirrored]), np.hstack([found, opposite])
    score = np.where((found == part[:, None]) | (found < 0), -np.inf, score)
    best = np.argsort(-score, axis=1, kind="stable")[:, :k]
    chosen = np.take_along_axis(found, best, axis=1)
    # A cell with fewer than k other rows leaves gaps; the row's best neighbour fills them.
    gaps = ~np.isfinite(np.take_along_axis(score, best, axis=1))
    chosen = np.where(gaps, chosen[:, :1], chosen)
    return np.where(chosen < 0, (part[:, None] + 1) % len(rows), chosen).astype(np.int64)
