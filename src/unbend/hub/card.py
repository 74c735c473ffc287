"""The card of a shared model: what it was fitted on, what it found, how to use it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

from unbend.runs import check_run, read_json
from unbend.runs.manifest import MANIFEST

__all__ = ["model_card", "run_facts"]

_SCORES = {"acc": "ACC", "nmi": "NMI", "ami": "AMI", "ari": "ARI"}
_MOST_SIZES = 30


def run_facts(run: str | Path) -> dict[str, Any]:
    """What a run directory says about its model: data, scores, chance, seed."""
    run = Path(run)
    check_run(run, "model", "metrics.json", "config.json")
    config, manifest, metrics = (
        read_json(run / name) if (run / name).is_file() else {}
        for name in ("config.json", MANIFEST, "metrics.json")
    )
    spec = config.get("input")
    return {
        # The last part only: a card is public, and the rest of the path is private.
        "data": _last_part(spec) if isinstance(spec, str) else None,
        "scores": metrics.get("MLC", metrics.get("scores")),
        "chance": metrics.get("chance"),
        "seed": manifest.get("seed"),
    }


def model_card(
    facts: Mapping[str, Any], *, repo: str, license: str | None = None, picture: str | None = None
) -> str:
    """The README of a shared model, in the hub's format: a YAML header, then Markdown.

    Parameters
    ----------
    facts : mapping
        ``n``, ``sizes``, ``dim``, ``shape``, ``encoder``, ``unbend`` of the model; ``data``,
        ``scores``, ``chance`` and ``seed`` of its run, where known.
    repo : str
        Name of the repository, for the example.
    license : str, optional
        Identifier of the licence, such as ``"mit"``. Without one the card says ``unknown``.
    picture : str, optional
        File name of a picture beside the card.

    Examples
    --------
    >>> facts = {"n": 3, "sizes": [2, 1], "dim": 8, "shape": (5,), "unbend": "0.1.0"}
    >>> print(model_card(facts, repo="me/mine").split("---")[1].strip())
    library_name: unbend
    license: "unknown"
    tags: ["clustering", "unsupervised", "mlc"]
    """
    header = {"license": license or "unknown", "tags": ["clustering", "unsupervised", "mlc"]}
    parts = [
        # JSON strings are YAML strings, so no value can add lines to the header.
        "\n".join(
            ["---", "library_name: unbend", *(f"{k}: {json.dumps(v)}" for k, v in header.items())]
        )
        + "\n---",
        f"# {_plain(PurePosixPath(repo).name)}",
        f"{len(facts['sizes'])} groups in {facts['n']:,} unlabelled samples, found by "
        "Manifold Linearizing and Clustering (MLC) with unbend.",
        _table_of_facts(facts),
        *([f"![Map of the features, coloured by group]({picture})"] if picture else []),
        _table_of_scores(facts),
        "## Use it",
        _example(facts, repo),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _table_of_facts(facts: Mapping[str, Any]) -> str:
    sizes = ", ".join(map(str, facts["sizes"][:_MOST_SIZES]))
    more = len(facts["sizes"]) - _MOST_SIZES
    rows = {
        "data": facts.get("data"),
        "n": f"{facts['n']:,}",
        "k": len(facts["sizes"]),
        "sizes of the groups": sizes + (f" and {more} more" if more > 0 else ""),
        "one sample": " × ".join(map(str, facts["shape"])),
        "encoder": facts.get("encoder"),
        "features": f"{facts['dim']} dimensions",
        "seed": facts.get("seed"),
        "unbend": facts["unbend"],
    }
    lines = [f"| {name} | {_plain(value)} |" for name, value in rows.items() if value is not None]
    return "\n".join(["| | |", "|---|---|", *lines])


def _table_of_scores(facts: Mapping[str, Any]) -> str:
    scores, chance = facts.get("scores"), facts.get("chance")
    if not isinstance(scores, Mapping) or not set(_SCORES) <= set(scores):
        return "No true labels were given, so there are no scores."
    rows = [("this model", scores)]
    if isinstance(chance, Mapping) and set(_SCORES) <= set(chance):
        rows.append(("chance", chance))
    lines = [
        f"| {name} | {row.get('n', '')} | "
        + " | ".join(f"{float(row[key]):.3f}" for key in _SCORES)
        + " |"
        for name, row in rows
    ]
    title = "## Scores against true labels, one seed"
    head = f"| | n | {' | '.join(_SCORES.values())} |"
    return "\n".join([title, "", head, "|---" * (len(_SCORES) + 2) + "|", *lines])


def _example(facts: Mapping[str, Any], repo: str) -> str:
    kind = "images" if len(facts["shape"]) == 3 or facts.get("encoder") else "vectors"
    return (
        "```python\nfrom unbend import MLC\n\n"
        f"model = MLC.from_pretrained({json.dumps(repo)})  # safetensors and JSON, never pickle\n"
        f"model.predict({kind})\n```"
    )


def _plain(value: Any) -> str:
    """Text in which nothing is Markdown or HTML."""
    text = " ".join(str(value).split())
    for sign in "\\`*_[]<>|!#":
        text = text.replace(sign, f"\\{sign}")
    return text


def _last_part(spec: str) -> str:
    return PureWindowsPath(spec).name or PurePosixPath(spec).name or spec
