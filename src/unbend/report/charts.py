"""Coordinates of the charts, in per cent of their frame; the template draws them.

The page stretches lines to its width but must not stretch text, so labels are kept separate.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

__all__ = [
    "choice_charts",
    "reliability_chart",
    "line_chart",
    "rank_chart",
    "rate_chart",
    "spectrum_chart",
    "tree_chart",
]

Series = dict[str, Any]


def ticks(low: float, high: float, count: int = 5) -> list[float]:
    """Round numbers from ``low`` to ``high``.

    >>> ticks(0, 97)
    [0.0, 20.0, 40.0, 60.0, 80.0]
    """
    if not high > low:
        return [low]
    raw = (high - low) / count
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(f * power for f in (1, 2, 2.5, 5, 10) if f * power >= raw * 0.999)
    start = math.ceil(low / step - 1e-9)
    values = [i * step for i in range(start, math.floor(high / step + 1e-9) + 1)]
    return [round(v, 12) for v in values]


_CHARACTER = 2.5  # width of a letter above the narrowest chart, in percent


def line_chart(
    series: Sequence[Series],
    *,
    label: str,
    x_label: str,
    marks: Sequence[tuple[float, str]] = (),
    zero: bool = True,
    whole_x: bool = False,
) -> dict[str, Any]:
    """Frame, ticks and paths of a line chart.

    Each series has ``name``, ``style``, ``x``, ``y`` (None interrupts the line) and optionally
    ``dots``, True for a dot at every point.
    """
    xs = [x for s in series for x in s["x"]]
    ys = [y for s in series for y in s["y"] if y is not None]
    x0, x1 = min(xs), max(xs)
    x1 = x1 if x1 > x0 else x0 + 1
    y0, y1 = min(ys, default=0.0), max(ys, default=1.0)
    y0 = min(y0, 0.0) if zero else y0
    pad = 0.06 * ((y1 - y0) or abs(y1) or 1.0)
    y0, y1 = (y0 if zero and y0 == 0 else y0 - pad), y1 + pad

    def left(x: float) -> float:
        return round(float(100 * (x - x0) / (x1 - x0)), 2)

    def top(y: float) -> float:
        return round(float(100 * (y1 - y) / (y1 - y0)), 2)

    x_ticks = [t for t in ticks(x0, x1, 6) if not whole_x or t == int(t)]
    return {
        "label": label,
        "x_label": x_label,
        "lines": [
            {
                "name": s["name"],
                "style": s["style"],
                "path": _path([(left(x), None if y is None else top(y)) for x, y in _pairs(s)]),
                "dots": [[left(x), top(y)] for x, y in _pairs(s) if y is not None]
                if s.get("dots")
                else [],
            }
            for s in series
        ],
        "x_ticks": [{"at": left(t), "text": f"{t:,g}"} for t in x_ticks],
        "y_ticks": [{"at": top(t), "text": f"{t:,g}"} for t in ticks(y0, y1)],
        "marks": _in_rows([(left(x), text) for x, text in marks]),
    }


def _in_rows(marks: Sequence[tuple[float, str]]) -> list[dict[str, Any]]:
    """Texts above the chart, each in the lowest row where it does not meet another.

    A text stands right of its mark, or left of it in the right part of the chart.
    """
    placed: list[dict[str, Any]] = []
    rows: list[list[tuple[float, float]]] = []
    for at, text in marks:
        end, width = at > 55, _CHARACTER * len(text)
        start, stop = (at - width, at) if end else (at, at + width)
        free = (r for r, row in enumerate(rows) if all(stop < a or b < start for a, b in row))
        row = next(free, len(rows))
        rows += [[]] if row == len(rows) else []
        rows[row].append((start, stop))
        placed.append({"at": at, "text": text, "end": end, "row": row})
    return placed


def _pairs(series: Series) -> list[tuple[float, float | None]]:
    return list(zip(series["x"], series["y"], strict=True))


def _path(points: Sequence[tuple[float, float | None]]) -> str:
    parts, pen = [], False
    for x, y in points:
        if y is None:
            pen = False
            continue
        parts.append(f"{'L' if pen else 'M'}{x:g} {y:g}")
        pen = True
    return "".join(parts)


def spectrum_chart(spectrum: dict[str, Any]) -> dict[str, Any]:
    """Eigenvalues of Γ, with the gap after k marked."""
    values, k = spectrum["eigenvalues"], spectrum["k"]
    numbers = list(range(1, len(values) + 1))
    line = {"name": "eigenvalue", "style": "a", "x": numbers, "y": values, "dots": True}
    text = f"k = {k}" if spectrum["gap"] is None else f"gap {spectrum['gap']:.3g} after {k}"
    marks = [(k + 0.5, text)] if k < len(values) else [(k, text)]
    return line_chart(
        [line],
        label=f"Eigenvalues of Γ; {text}",
        x_label="number",
        marks=marks,
        whole_x=True,
    )


def choice_charts(choice: dict[str, Any]) -> list[dict[str, Any]]:
    """Gap and stability, and the strength of every number of clusters."""
    rows = choice["rows"]
    ks = [row["k"] for row in rows]
    marks = [(choice["chosen"], f"k = {choice['chosen']}")]

    def line(key: str, name: str, style: str, dots: bool = False) -> Series:
        y = [row[key] for row in rows]
        return {"name": name, "style": style, "x": ks, "y": y, "dots": dots}

    evidence = [
        line("gap", "gap of the graphs", "a"),
        line("stability", "stability of the candidates", "b", dots=True),
    ]
    options: dict[str, Any] = {"x_label": "number of clusters", "marks": marks, "whole_x": True}
    return [
        line_chart(evidence, label="Gap and stability over the number of clusters", **options),
        line_chart(
            [line("strength", "strength of the candidates", "c", dots=True)],
            label="Strength over the number of clusters",
            **options,
        ),
    ]


def reliability_chart(found: dict[str, Any]) -> dict[str, Any]:
    """Purity over confidence, and the diagonal where both are equal."""
    bins = found["bins"]
    x = [row["confidence"] for row in bins]
    return line_chart(
        [
            {"name": "ideal", "style": "b", "x": [0.0, 1.0], "y": [0.0, 1.0]},
            {
                "name": "purity",
                "style": "a",
                "x": x,
                "y": [row["purity"] for row in bins],
                "dots": True,
            },
        ],
        label=f"Purity over confidence; expected calibration error {found['ece']:.3f}",
        x_label="confidence",
    )


def rate_chart(history: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """R, R_c and ΔR over the steps of all stages."""
    series = []
    for key, name, style in (("R", "R", "a"), ("R_c", "R_c", "b"), ("delta_R", "ΔR", "c")):
        x, y = _joined(history, "step", key)
        if any(v is not None for v in y):
            series.append({"name": name, "style": style, "x": x, "y": y})
    return line_chart(
        series, label="Rates in nats over training steps", x_label="step", marks=_stages(history)
    )


def rank_chart(history: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Numerical rank of the features over the steps."""
    x, y = _joined(history, "rank_step", "rank")
    line = {"name": "numerical rank of Z", "style": "a", "x": x, "y": y}
    return line_chart(
        [line],
        label="Numerical rank of the features over training steps",
        x_label="step",
        marks=_stages(history),
    )


def _joined(
    history: Sequence[dict[str, Any]], steps: str, key: str
) -> tuple[list[float], list[float | None]]:
    """Join the stages end to end, with a break in the line between two of them."""
    x: list[float] = []
    y: list[float | None] = []
    for offset, stage in zip(_offsets(history), history, strict=True):
        values = stage[key] if stage[key] is not None else [None] * len(stage[steps])
        x += [offset + s for s in stage[steps]] + [offset + stage["n_steps"]]
        y += [*values, None]
    return x, y


def _offsets(history: Sequence[dict[str, Any]]) -> list[int]:
    offsets = [0]
    for stage in history:
        offsets.append(offsets[-1] + max([stage["n_steps"], *(s + 1 for s in stage["step"])]))
    return offsets[:-1]


def _stages(history: Sequence[dict[str, Any]]) -> list[tuple[float, str]]:
    return [
        (offset, stage["name"]) for offset, stage in zip(_offsets(history), history, strict=True)
    ]


def tree_chart(linkage: Sequence[Sequence[float]]) -> dict[str, Any]:
    """A dendrogram that grows to the right: ``leaves`` in drawing order, ``path`` and ticks."""
    k = len(linkage) + 1
    order = _leaves(linkage)
    at = {leaf: 100 * (i + 0.5) / k for i, leaf in enumerate(order)}
    high = max((row[2] for row in linkage), default=0.0) or 1.0
    height = dict.fromkeys(range(k), 0.0)
    parts = []
    for step, (a, b, value, _) in enumerate(linkage):
        x, ends = 97 * value / high, (int(a), int(b))
        corners = [(97 * height[e] / high, at[e]) for e in ends]
        (xa, ya), (xb, yb) = corners
        parts.append(f"M{xa:.2f} {ya:.2f}H{x:.2f}V{yb:.2f}H{xb:.2f}")
        at[k + step], height[k + step] = (ya + yb) / 2, value
    last = f"M{97:.2f} {at[2 * k - 2]:.2f}H100" if linkage else ""
    return {
        "leaves": order,
        "path": "".join(parts) + last,
        "x_ticks": [{"at": 97 * t / high, "text": f"{t:,g}"} for t in ticks(0, high, 4)],
    }


def _leaves(linkage: Sequence[Sequence[float]]) -> list[int]:
    k = len(linkage) + 1
    below: dict[int, list[int]] = {leaf: [leaf] for leaf in range(k)}
    for step, row in enumerate(linkage):
        below[k + step] = below.pop(int(row[0])) + below.pop(int(row[1]))
    return next(iter(below.values()))
