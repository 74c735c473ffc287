"""Small pictures: thumbnails of images, and sheets of many thumbnails in one file."""

from __future__ import annotations

import io
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from unbend.report.map2d import sample_by_cluster

__all__ = ["Sprite", "make_sprites", "make_thumbnails"]

_PER_SHEET = 1024


def make_thumbnails(
    images: NDArray[Any],
    size: int = 48,
    cap: int = 20_000,
    *,
    labels: NDArray[np.int64] | None = None,
    seed: int = 0,
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Small RGB pictures of some images.

    Parameters
    ----------
    images : array of shape (n, h, w) or (n, c, h, w), c = 1 or 3
        uint8 in 0..255, or any other numbers, which are scaled from their minimum to their
        maximum. A memory map is read row by row.
    size : int
        Length of the longer side; smaller images keep their size.
    cap : int
        Draw at most this many thumbnails at random, see :func:`sample_by_cluster`.
    labels : ndarray of shape (n,), optional
        Clusters, so that small ones are represented too.

    Returns
    -------
    thumbnails : ndarray of shape (m, h', w', 3), uint8
    indices : ndarray of shape (m,)
        The samples they show, in ascending order.

    Examples
    --------
    >>> thumbnails, indices = make_thumbnails(np.zeros((3, 1, 96, 60), dtype=np.uint8))
    >>> thumbnails.shape, indices.tolist()
    ((3, 48, 30, 3), [0, 1, 2])
    """
    _check(images, size, cap)
    n = len(images)
    groups = np.zeros(n, dtype=np.int64) if labels is None else np.asarray(labels)
    indices = sample_by_cluster(groups, cap, seed=seed)
    h, w = images.shape[-2:]
    scale = min(1.0, size / max(h, w))
    shape = (max(1, round(h * scale)), max(1, round(w * scale)))
    low, high = _range(images, indices)
    out = np.empty((len(indices), *shape, 3), dtype=np.uint8)
    for slot, i in enumerate(indices):
        picture = Image.fromarray(_rgb(np.asarray(images[i]), low, high))
        resized = picture.resize(shape[::-1], Image.Resampling.LANCZOS) if scale < 1 else picture
        out[slot] = np.asarray(resized)
    return out, indices


def _check(images: NDArray[Any], size: int, cap: int) -> None:
    ok = images.ndim == 3 or (images.ndim == 4 and images.shape[1] in (1, 3))
    if not ok:
        raise ValueError(
            f"`images` of make_thumbnails must be (n, h, w) or (n, 1 or 3, h, w), got shape "
            f"{images.shape}; move the channels to the second place"
        )
    for name, value in (("size", size), ("cap", cap)):
        if value < 1:
            raise ValueError(f"`{name}` of make_thumbnails must be 1 or more, got {value}")


def _range(images: NDArray[Any], indices: NDArray[np.int64]) -> tuple[float, float]:
    """Values shown as black and white: photographs keep their exposure, other data is stretched."""
    probe = np.asarray(images[indices[:2000]])
    probe = probe[np.isfinite(probe)] if probe.dtype.kind == "f" else probe
    low, high = (float(probe.min()), float(probe.max())) if probe.size else (0.0, 1.0)
    if images.dtype == np.uint8 and high >= 64:
        return 0.0, 255.0
    return low, high if high > low else low + 1


def _rgb(image: NDArray[Any], low: float, high: float) -> NDArray[np.uint8]:
    image = image[None] if image.ndim == 2 else image
    unit = (np.nan_to_num(image.astype(np.float64), nan=low) - low) / (high - low)
    grey = (unit.clip(0, 1) * 255).round().astype(np.uint8)
    return np.ascontiguousarray(np.broadcast_to(grey, (3, *grey.shape[1:])).transpose(1, 2, 0))


class Sprite(NamedTuple):
    """A sheet of ``columns`` × ``rows`` thumbnails as the bytes of a WebP image."""

    data: bytes
    columns: int
    rows: int


def make_sprites(thumbnails: NDArray[np.uint8], *, per_sheet: int = _PER_SHEET) -> list[Sprite]:
    """Sheets of thumbnails; number s is tile s mod ``per_sheet`` of sheet s div ``per_sheet``.

    Tiny images are enlarged here, because a browser would blend neighbouring tiles.
    """
    thumbnails = _enlarged(thumbnails)
    m, h, w = thumbnails.shape[:3]
    columns = int(np.ceil(np.sqrt(min(per_sheet, m))))
    sheets = []
    for start in range(0, m, per_sheet):
        tiles = thumbnails[start : start + per_sheet]
        rows = -(-len(tiles) // columns)
        sheet = np.zeros((rows * columns, h, w, 3), dtype=np.uint8)
        sheet[: len(tiles)] = tiles
        grid = sheet.reshape(rows, columns, h, w, 3).swapaxes(1, 2)
        picture = Image.fromarray(grid.reshape(rows * h, columns * w, 3))
        file = io.BytesIO()
        picture.save(file, "WEBP", quality=80, method=2)
        sheets.append(Sprite(file.getvalue(), columns, rows))
    return sheets


def _enlarged(thumbnails: NDArray[np.uint8], size: int = 48) -> NDArray[np.uint8]:
    h, w = thumbnails.shape[1:3]
    factor = round(size / max(h, w))
    if factor < 2:
        return thumbnails
    bicubic, target = Image.Resampling.BICUBIC, (w * factor, h * factor)
    return np.stack([np.asarray(Image.fromarray(t).resize(target, bicubic)) for t in thumbnails])
