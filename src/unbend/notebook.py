"""A fitted model in a few words: a card for notebooks, and the lines of a summary."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

__all__ = ["choices", "count", "fitted_card", "why"]

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
    k = count(len(sizes), "cluster")
    head = f"<b>{escape(name)}</b> · {k} of {sum(sizes):,} samples"
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


def count(n: int, what: str) -> str:
    """A number and its noun.

    >>> count(1, "cluster"), count(2, "cluster")
    ('1 cluster', '2 clusters')
    """
    return f"{n} {what}" if n == 1 else f"{n} {what}s"


def why(
    asked: str,
    preset: str,
    encoder: str | None,
    texts: bool = False,
    because: str = "",
    seen: Sequence[int] = (),
) -> str:
    """Preset and encoder of a model, and why they were chosen; ``because`` is for the encoder.

    ``seen`` is the shape of a sample as the network sees it, where it was given in another one.

    >>> why("auto", "vectors", None)
    'preset vectors (made for vectors of any kind), no encoder'
    >>> why("auto", "vectors", "lite2", because="as asked")
    'encoder lite2 (as asked), preset vectors (made for embeddings)'
    """
    reason = "as asked"
    if asked == "auto":
        kind = "embeddings" if encoder is not None else "vectors of any kind"
        reason = f"made for {kind if preset == 'vectors' else 'small images'}"
        if len(seen) == 1:
            reason = "pixels as vectors, because neighbours by pixels show the groups"
        elif seen:
            side = f"{seen[-2]} x {seen[-1]}"
            reason = f"the {seen[-2] * seen[-1]} columns are pixels of images of {side}"
    chosen, detail = f"preset {preset} ({reason})", f" ({because})" if because else ""
    if encoder is None:
        return f"{chosen}, no encoder{detail}"
    if texts and encoder == "tfidf":
        return f"texts by tfidf (words, offline; --encoder hf:NAME compares meaning), {chosen}"
    return f"encoder {encoder}{detail}, {chosen}"


def choices(config: Any, neighbors: Any, labelling: Sequence[Mapping[str, Any]]) -> str:
    """What was chosen from the data and why: the neighbours and the labelling."""
    used = config.views.n_neighbors > 0
    parts = [neighbors.reason()] if used else ["no neighbours as views"]
    if labelling:
        best = labelling[0]
        why = f"the best of {len(labelling)} labellings (score {best['score']:.3f})"
        if best["separate"]:
            why = "whose clusters are separate parts of the neighbour graph"
        parts.append(f"labels by {best['labelling']}, {why}")
    elif config.labels.join != "auto":
        parts.append(f"labels by line 10 of Algorithm 1, labels.join={config.labels.join}")
    return "; ".join(parts)
