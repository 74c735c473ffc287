"""Colours for any number of clusters, chosen to remain distinct with colour-blindness.

The first eight are those of Okabe and Ito, with yellow and black replaced by colours that are
visible on light and dark backgrounds. The others step around the hue circle by the golden angle,
with varying lightness. Colour is never the only cue: the map also shows numbers and shapes.
"""

from __future__ import annotations

import math

__all__ = ["colours"]

_FIRST = (
    "#0072b2",
    "#e69f00",
    "#009e73",
    "#cc79a7",
    "#d55e00",
    "#56b4e9",
    "#8a63c9",
    "#8c7a4f",
)


def colours(k: int) -> list[str]:
    """``k`` colours as ``#rrggbb``.

    >>> len(set(colours(200)))
    200
    """
    return [*_FIRST[:k], *(_later(i) for i in range(k - len(_FIRST)))]


def _later(i: int) -> str:
    hue = math.radians((20 + 137.508 * i) % 360)
    lightness = (0.64, 0.74, 0.54)[i % 3] + 0.03 * math.sin(i)
    return _oklch(lightness, 0.12, hue)


def _oklch(lightness: float, chroma: float, hue: float) -> str:
    """OKLCH to sRGB, clipped to what a screen can show."""
    a, b = chroma * math.cos(hue), chroma * math.sin(hue)
    l = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3  # noqa: E741
    m = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3
    s = (lightness - 0.0894841775 * a - 1.2914855480 * b) ** 3
    linear = (
        4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
        -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
        -0.0041960863 * l - 0.7034186147 * m + 1.7076147010 * s,
    )
    return "#" + "".join(f"{round(255 * _gamma(min(max(c, 0), 1))):02x}" for c in linear)


def _gamma(c: float) -> float:
    return 12.92 * c if c <= 0.0031308 else 1.055 * c ** (1 / 2.4) - 0.055
