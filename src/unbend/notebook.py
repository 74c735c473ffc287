"""A summary card of a fitted model for notebooks, above scikit-learn's own diagram."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

__all__ = ["fitted_card"]

_BOX = (
    "display:inline-block;border:1px solid #8884;border-radius:10px;padding:.6em .9em;"
    "margin:.2em 0 .5em;font-family:system-ui,sans-serif;font-size:13px;line-height:1.5"
)
_MOST_BARS = 60


def fitted_card(
    name: str, sizes: Sequence[int], history: Sequence[Mapping[str, Any]], chosen: str | None = None
) -> str:
    """HTML with k, one bar per cluster, the last stage and its rates.

    Colours are inherited, so the card works in light and dark notebooks.

    >>> "3 clusters" in fitted_card("MLC", [5, 3, 2], [])
    True
    """
    head = f"<b>{escape(name)}</b> · {len(sizes)} clusters of {sum(sizes):,} samples"
    lines = [head if chosen is None else f"{head} · {escape(chosen)}", _bars(sizes)]
    if history:
        last = history[-1]
        parts = [f"{escape(str(last.get('stage', '')))}, {len(history):,} steps"]
        for key, sign in (("R", "R"), ("R_c", "R<sub>c</sub>"), ("delta_R", "ΔR")):
            if isinstance(last.get(key), (int, float)):
                parts.append(f"{sign} {last[key]:.1f}")
        lines.append(f'<span style="opacity:.75">{" · ".join(parts)}</span>')
    return f'<div style="{_BOX}">{"".join(f"<div>{line}</div>" for line in lines)}</div>'


def _bars(sizes: Sequence[int]) -> str:
    largest = max([1, *sizes])
    bars = "".join(
        f'<i title="cluster {q}: {size:,}" style="display:inline-block;width:7px;'
        f"margin-right:2px;background:currentColor;opacity:.55;border-radius:2px 2px 0 0;"
        f'height:{max(1, round(28 * size / largest))}px"></i>'
        for q, size in enumerate(sizes[:_MOST_BARS])
    )
    more = f" … {len(sizes) - _MOST_BARS} more" if len(sizes) > _MOST_BARS else ""
    return f'<span role="img" aria-label="cluster sizes">{bars}{more}</span>'
