"""Find images of poor quality: blurred, dark, flat (one colour) or tiny ones."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from unbend.pixels.decode import open_image

__all__ = ["Problem", "find_problems"]

Problem = tuple[int, str, str]  # sample, kind, measure

_TINY = 32  # pixels of the shorter side of the file
_DARK = 30.0  # mean brightness, of 255
_FLAT = 3.0  # standard deviation of the brightness
# Energy of the Laplacian over that of the image: photographs at 128 pixels have 0.05 and more,
# after a Gaussian blur of 3 pixels less than 0.005.
_BLURRED = 0.01


def find_problems(X: NDArray[np.uint8], paths: Sequence[Path] | None = None) -> list[Problem]:
    """Problems of images (n, 3, s, s), in the order of the samples."""
    found: list[Problem] = []
    for i in range(len(X)):
        gray = np.asarray(X[i], np.float64).mean(axis=0)
        side = _TINY if paths is None else _shorter_side(paths[i])
        if side < _TINY:
            found.append((i, "tiny", f"{side} pixels"))
        if gray.mean() < _DARK:
            found.append((i, "dark", f"brightness {gray.mean():.0f} of 255"))
        elif gray.std() < _FLAT:
            found.append((i, "flat", f"contrast {gray.std():.1f} of 255"))
        elif side >= _TINY and (sharp := _sharpness(gray)) < _BLURRED:
            found.append((i, "blurred", f"sharpness {sharp:.4f}"))
    return found


def _sharpness(gray: NDArray[np.float64]) -> float:
    inner = gray[1:-1, 1:-1]
    laplacian = gray[:-2, 1:-1] + gray[2:, 1:-1] + gray[1:-1, :-2] + gray[1:-1, 2:] - 4 * inner
    return float(laplacian.var() / max(float(inner.var()), 1e-9))


def _shorter_side(path: Path) -> int:
    with open_image(path) as image:
        return min(image.size)
