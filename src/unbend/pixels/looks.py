"""What image files look like, from a few of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from unbend.pixels.decode import is_regular, open_image

__all__ = ["are_gray", "gray_side"]

_LOOKED_AT = 32  # files or images, spread over all of them
_GRAY_MODES = ("1", "L", "LA", "I", "F")


def are_gray(X: NDArray[np.uint8]) -> bool:
    """Whether images (n, h, w), (n, 1, h, w) or (n, 3, h, w) have no colour."""
    if X.ndim == 3 or X.shape[1] == 1:
        return True
    some = X[_spread(len(X))]
    return bool((some[:, 1:] == some[:, :1]).all())


def gray_side(root: Path, names: Sequence[str], most: int) -> int | None:
    """Side of the largest of some images if all of them are gray and at most ``most`` pixels long.

    The side is that of the square which is cut out when they are decoded.
    """
    side = 0
    for i in _spread(len(names)):
        path = root / names[i]
        try:
            if not is_regular(path):
                continue
            with open_image(path) as image:
                if max(image.size) > most or not _is_gray(image):
                    return None
                side = max(side, min(image.size))
        except Exception:  # a broken file is reported when all are decoded
            continue
    return side if side >= 4 else None


def _is_gray(image: Image.Image) -> bool:
    if image.mode in _GRAY_MODES or image.mode.startswith("I;16"):
        return True
    red, green, blue = image.convert("RGB").split()
    return red.tobytes() == green.tobytes() == blue.tobytes()


def _spread(n: int) -> NDArray[np.int64]:
    """Indices spread evenly over n."""
    return np.unique(np.linspace(0, n - 1, min(n, _LOOKED_AT)).astype(np.int64))
