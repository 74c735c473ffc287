"""Render a summary as one self-contained HTML file."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from importlib import resources
from typing import Any

import numpy as np
from jinja2 import BaseLoader, Environment, StrictUndefined, TemplateNotFound
from markupsafe import Markup
from numpy.typing import NDArray

from unbend.report import charts
from unbend.report.palette import colours
from unbend.report.sprites import make_sprites

__all__ = ["base64_text", "make_environment", "render", "short_name"]

_LONGEST_NAME = 160
# Of a cluster, for the script of the page.
_SHOWN = ("tag", "name", "size", "share", "confidence", "rank", "n_outliers", "classes")
_WIDEST_TABLE = 60
_FAR = 65535  # marks a sample that is not on the map


def render(summary: dict[str, Any]) -> str:
    """The report as one self-contained HTML page.

    Everything that comes from the data is escaped, and the page makes no requests.

    Parameters
    ----------
    summary : dict
        As :func:`~unbend.report.summarise` returns it.
    """
    return (
        make_environment()
        .get_template("report.html")
        .render(
            s=summary,
            css=Markup(_text("report.css")),
            js=Markup(_text("report.js")),
            data=script_json(_payload(summary)),
            colours=colours(summary["k"]),
            tiles=_tiles(summary),
            facts=_facts(summary),
            spectrum=summary["spectrum"] and charts.spectrum_chart(summary["spectrum"]),
            choice=charts.choice_charts(summary["choice"]) if summary["choice"].get("rows") else [],
            rates=charts.rate_chart(summary["history"]) if summary["history"] else None,
            ranks=charts.rank_chart(summary["history"])
            if any(stage["rank"] for stage in summary["history"])
            else None,
            tree=charts.tree_chart(summary["tree"]) if summary["tree"] else None,
            table=_table(summary["truth"]),
            trust=summary["reliability"] and charts.reliability_chart(summary["reliability"]),
        )
    )


def make_environment() -> Environment:
    """Jinja with the templates and filters of the pages; all values are escaped."""
    environment = Environment(
        loader=_Templates(),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"count": _count, "percent": _percent, "score": _score}
    return environment


class _Templates(BaseLoader):
    """Loads the templates next to this module, also from a zipped package."""

    def get_source(self, environment: Environment, template: str) -> tuple[str, None, None]:
        try:
            return _text(template), None, None
        except FileNotFoundError as error:
            raise TemplateNotFound(template) from error


def _text(name: str) -> str:
    return (resources.files("unbend.report") / "templates" / name).read_text(encoding="utf-8")


def script_json(tree: Any) -> Markup:
    """JSON that cannot end the script element around it.

    >>> script_json({"name": "</script>&"})
    Markup('{"name":"\\\\u003c/script\\\\u003e\\\\u0026"}')
    """
    text = json.dumps(tree, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return Markup(text)


# ---------------------------------------------------------------------- data of the script


def _payload(summary: dict[str, Any]) -> dict[str, Any]:
    samples, k = summary["samples"], summary["k"]
    thumbnails, similarity = summary["thumbnails"], summary["similarity"]
    sheets = [] if thumbnails is None else make_sprites(thumbnails)
    classes = sorted(set(samples["truth"] or []))
    number = {name: i for i, name in enumerate(classes)}
    return {
        "k": k,
        "colours": colours(k),
        "sheets": [
            {"data": base64_text(s.data), "columns": s.columns, "rows": s.rows} for s in sheets
        ],
        "tile": None if thumbnails is None else list(thumbnails.shape[2:0:-1]),
        "names": [short_name(name) for name in samples["name"]],
        "cluster": _packed(samples["cluster"]),
        "probability": _unit(samples["probability"]),
        "outlier": _unit(samples["outlier_score"]),
        "thumbnail": _packed([t if t >= 0 else _FAR for t in samples["thumbnail"]]),
        "truth": _packed([number[name] for name in samples["truth"]]) if classes else None,
        "classes": [short_name(name) for name in classes],
        "x": _coordinates(samples["x"]),
        "y": _coordinates(samples["y"]),
        "clusters": [
            {key: _rounded(c[key]) for key in _SHOWN}
            | {
                "examples": c["examples"],
                "passages": [[short_name(p["name"]), p["text"]] for p in c["passages"]],
                "principal": [[_rounded(p["energy"]), p["slots"]] for p in c["principal"]],
            }
            for c in summary["clusters"]
        ],
        "similarity": similarity
        and {
            "matrix": base64_text(similarity["matrix"].tobytes()),
            "bounds": similarity["bounds"],
            "clusters": similarity["clusters"],
            "blocks": similarity["blocks"],
        },
        "has_map": summary["map"] is not None,
    }


def base64_text(data: bytes) -> str:
    """Bytes for a data URI."""
    return base64.b64encode(data).decode("ascii")


def _packed(values: Sequence[int] | NDArray[Any]) -> str:
    """Numbers below 65536 as little-endian 16-bit integers."""
    return base64_text(np.asarray(values).clip(0, _FAR).astype("<u2").tobytes())


def _unit(values: Sequence[float] | None) -> str | None:
    if values is None:
        return None
    finite = np.nan_to_num(np.asarray(values, dtype=np.float64), nan=0.0)
    return _packed((finite.clip(0, 1) * 10_000).round())


def _coordinates(values: Sequence[float]) -> str:
    spots = ((np.asarray(values, dtype=np.float64) + 1) / 2 * 65_000).round()
    return _packed(np.nan_to_num(spots, nan=_FAR))


def _rounded(value: Any) -> Any:
    return round(value, 4) if isinstance(value, float) else value


def short_name(name: str) -> str:
    """A name, cut in the middle if it is very long."""
    half = _LONGEST_NAME // 2
    return name if len(name) <= _LONGEST_NAME else f"{name[:half]} … {name[-half:]}"


# ---------------------------------------------------------------------- texts


def _count(value: float) -> str:
    return f"{value:,.0f}"


def _percent(value: float) -> str:
    """A share as a percentage that rounds to 100 % only when it is exactly one.

    >>> _percent(0.9999), _percent(1.0), _percent(0.973)
    ('99.9%', '100%', '97%')
    """
    if 0.995 <= value < 1:
        return f"{min(100 * value, 99.9):.1f}%"
    return f"{100 * value:.1f}%" if 0 < value < 0.01 else f"{100 * value:.0f}%"


def _score(value: float) -> str:
    """Three digits, without a minus sign before zero."""
    return f"{round(value, 3) + 0.0:.3f}"


def duration(seconds: float) -> str:
    """Seconds in readable units.

    >>> duration(7.21), duration(118.6), duration(7300)
    ('7.2 s', '1 min 59 s', '2 h 2 min')
    """
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    minutes = round(seconds / 60)
    return f"{minutes // 60} h {minutes % 60} min"


def _facts(summary: dict[str, Any]) -> list[str]:
    """The parts of the summary line."""
    about = summary["about"]
    found = [
        f"{summary['n']:,} {'images' if about.get('kind') == 'images' else 'samples'}",
        f"{summary['n_counted']} cluster{'s' if summary['n_counted'] != 1 else ''}",
        summary["choice"]["text"],
    ]
    if about.get("encoder"):
        found.append(f"encoder {about['encoder']}")
    elif about.get("kind") == "images":
        found.append("by their pixels, without an encoder")
    if about.get("n_noise"):
        found.append(f"{about['n_noise']:,} outliers labelled -1, left out below")
    if about.get("n_trained") is not None and about["n_trained"] < summary["n"]:
        found.append(f"trained on {about['n_trained']:,} of them")
    if about.get("seconds") is not None:
        found.append(duration(float(about["seconds"])))
    if about.get("seed") is not None:
        found.append(f"seed {about['seed']}")
    if about.get("version"):
        found.append(f"unbend {about['version']}")
    return found


def _numbered(cluster: int) -> int | str:
    """A cluster's number in the head of a table; -1 is none."""
    return "noise" if cluster == -1 else cluster


def _tiles(summary: dict[str, Any]) -> list[dict[str, str]]:
    found = [
        {"value": _count(summary["n"]), "name": "samples"},
        {"value": _count(summary["n_counted"]), "name": "clusters"},
    ]
    if summary["confidence"] is not None:
        found.append({"value": _percent(summary["confidence"]), "name": "mean confidence"})
    similarity = summary["similarity"]
    if similarity and similarity["within"] is not None and similarity["between"] is not None:
        text = f"{similarity['within']:.2f} / {similarity['between']:.2f}"
        found.append({"value": text, "name": "|cos| within / between"})
    if summary["truth"]:
        text = _percent(summary["truth"]["scores"]["acc"])
        found.append({"value": text, "name": "accuracy (true labels)"})
    return found


def _table(truth: dict[str, Any] | None) -> dict[str, Any] | None:
    """The contingency table with matched clusters on the diagonal; large tables are cut."""
    if truth is None or not truth.get("table"):
        return None
    table, match = np.asarray(truth["table"]), truth["match"]
    columns = sorted(
        range(table.shape[1]), key=lambda c: (match[c] is None, match[c] or 0, -table[:, c].sum())
    )
    totals = table.sum(1)
    rows = [
        {
            "name": short_name(str(truth["classes"][r])),
            "total": int(totals[r]),
            "cells": [
                {"count": int(table[r, c]), "share": float(table[r, c] / max(totals[r], 1))}
                | {"hit": match[c] == r}
                for c in columns[:_WIDEST_TABLE]
            ],
        }
        for r in range(min(len(table), _WIDEST_TABLE))
    ]
    return {
        "clusters": [_numbered(truth["clusters"][c]) for c in columns[:_WIDEST_TABLE]],
        "rows": rows,
        "cut": max(table.shape) > _WIDEST_TABLE,
        "shape": table.shape,
    }
