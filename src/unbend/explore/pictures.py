"""Pictures of samples: from the files of the run, from its input, or from its thumbnails."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from unbend.pixels.decode import read_image
from unbend.pixels.folders import path_inside
from unbend.report import Facts
from unbend.runs import read_json

__all__ = ["SIDES", "Pictures", "open_pictures"]

SIDES = (64, 320)  # of a tile in a gallery, of a picture by itself
_KEPT = 4096

Draw = Callable[[int, int], "NDArray[np.uint8] | None"]


class Pictures:
    """Square pictures by sample; ``files`` are the originals where the run was a folder."""

    def __init__(
        self, draw: Draw | None, known: NDArray[np.bool_], files: Sequence[Path] | None = None
    ) -> None:
        self.known, self.files = known, files
        self._fresh = draw
        self._draw = lru_cache(_KEPT)(draw) if draw is not None else None

    def __bool__(self) -> bool:
        return self._draw is not None

    def tile(self, row: int, side: int) -> NDArray[np.uint8] | None:
        """The picture of one sample (side, side, 3), not kept; None if there is none."""
        return None if self._fresh is None else self._fresh(row, side)

    def sheet(self, rows: Sequence[int], side: int) -> bytes:
        """One WebP image with the pictures of ``rows`` side by side; blank if there is none."""
        if side not in SIDES:
            raise ValueError(f"`side` must be one of {SIDES}, got {side!r}")
        columns = min(16, len(rows))
        height = -(-len(rows) // columns)
        sheet = np.full((height * side, columns * side, 3), 128, np.uint8)
        for place, row in enumerate(rows):
            tile = self._draw(int(row), side) if self._draw is not None else None
            if tile is not None:
                y, x = divmod(place, columns)
                sheet[y * side : (y + 1) * side, x * side : (x + 1) * side] = tile
        file = io.BytesIO()
        Image.fromarray(sheet).save(file, "WEBP", quality=82, method=1)
        return file.getvalue()


def open_pictures(run: Path, facts: Facts, images: str | Path | None = None) -> Pictures:
    """The best pictures there are of the samples of a run."""
    n = len(facts.labels)
    if facts.about.get("kind") != "images":
        return Pictures(None, np.zeros(n, bool))
    root = Path(images) if images is not None else _folder(run)
    if root is not None and root.is_dir():
        files = [path_inside(root, str(name)) for name in facts.names]
        if all(f is not None for f in files) and files[0].is_file():  # type: ignore[union-attr]
            kept: list[Path] = [f for f in files if f is not None]
            return Pictures(lambda row, side: _from_file(kept[row], side), np.ones(n, bool), kept)
    if images is not None:
        raise ValueError(f"the samples of {str(run)!r} are not in {str(root)!r}; name their folder")
    return _from_thumbnails(facts, n)


def _folder(run: Path) -> Path | None:
    path = run / "config.json"
    spec = read_json(path).get("input") if path.is_file() else None
    if not isinstance(spec, str):
        return None
    place = Path(spec)
    return place.parent if place.is_file() and place.suffix in (".csv", ".parquet") else place


def _from_file(path: Path, side: int) -> NDArray[np.uint8] | None:
    found = read_image(str(path), side)
    if found.pixels is None:
        return None
    planes = np.frombuffer(found.pixels, np.uint8).reshape(3, side, side)
    return np.ascontiguousarray(planes.transpose(1, 2, 0))


def _from_thumbnails(facts: Facts, n: int) -> Pictures:
    known = np.zeros(n, bool)
    tiles, index = facts.thumbnails, facts.thumbnail_index
    if tiles is None or index is None:
        return Pictures(None, known)
    known[index] = True
    place = np.full(n, -1)
    place[index] = np.arange(len(index))

    def draw(row: int, side: int) -> NDArray[np.uint8] | None:
        return _square(np.asarray(tiles[place[row]]), side) if place[row] >= 0 else None

    return Pictures(draw, known)


def _square(tile: NDArray[np.uint8], side: int) -> NDArray[np.uint8]:
    """Fit a picture into a square; tiny ones are enlarged smoothly."""
    h, w = tile.shape[:2]
    scale = side / max(h, w)
    size = (max(1, round(w * scale)), max(1, round(h * scale)))
    picture = Image.fromarray(tile).resize(size, Image.Resampling.BICUBIC)
    out = np.zeros((side, side, 3), np.uint8)
    y, x = (side - size[1]) // 2, (side - size[0]) // 2
    out[y : y + size[1], x : x + size[0]] = np.asarray(picture)
    return out
