"""Pixels or an encoder: which of them separates the groups of gray images better.

Pre-trained encoders have learned from colour photographs. Aligned gray images, such as faces under
changing light or objects on a turntable, are often closer to their own kind in pixels. Which of the
two is better shows without labels: by the cut that the best neighbour graph of each leaves, see
:func:`unbend.samples.choose_metric`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.functional import interpolate

from unbend.progress import Progress, silent
from unbend.samples import choose_metric, prepare

__all__ = ["PIXEL_SIDE", "pilot_rows", "pixels_separate_better"]

PIXEL_SIDE = 32  # to which images are scaled whose pixels are clustered
_PILOT, _PILOT_MAX, _PER_CLUSTER = 500, 2000, 12  # images that are compared
_LEAVE = 0.7  # of the cut in the embeddings: the pixels must leave less


def pilot_rows(n: int, n_clusters: int | str) -> NDArray[np.int64]:
    """Sorted rows of the images that decide, the same for every call."""
    wanted = _PILOT if n_clusters == "auto" else max(_PILOT, _PER_CLUSTER * int(n_clusters))
    chosen = np.random.default_rng(0).permutation(n)[: min(wanted, _PILOT_MAX)]
    return np.sort(chosen).astype(np.int64)


def pixels_separate_better(
    images: NDArray[np.uint8],
    embeddings: NDArray[Any],
    n_clusters: int | str,
    progress: Progress = silent,
) -> bool:
    """Whether the pixels of gray images (m, c, h, w) leave clearly less to cut than embeddings."""
    gray = torch.from_numpy(np.ascontiguousarray(images[:, :1])).float()
    small = interpolate(gray, size=(PIXEL_SIDE, PIXEL_SIDE), mode="bilinear", antialias=True)
    vectors = prepare(np.asarray(embeddings))[0]
    by_pixels = choose_metric(small.flatten(1), n_clusters, progress=progress)
    by_encoder = choose_metric(vectors, n_clusters, progress=progress)
    return by_pixels.cut <= _LEAVE * by_encoder.cut
