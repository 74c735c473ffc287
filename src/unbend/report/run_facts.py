"""Facts from a run directory, of which every file but the labels may be missing."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from unbend.config import Config
from unbend.labels import LabelModel
from unbend.labels.surroundings import threshold_of
from unbend.report.facts import Facts, calibration_of, without_noise
from unbend.report.truth import truth_from_metrics
from unbend.runs import read_json, read_labels, read_model
from unbend.runs.arrays import read_npy
from unbend.runs.labels import unquoted
from unbend.samples import NeighborChoice

__all__ = ["facts_of_run"]


def facts_of_run(path: str | Path, *, noise: bool = False, **given: Any) -> Facts:
    """Read the files of a run.

    Parameters
    ----------
    path : path
        A run directory with ``labels.parquet`` or ``labels.csv``.
    noise : bool
        Keep the samples whose label is -1, which are in no cluster.
    **given
        Fields of :class:`Facts` that the caller knows, such as ``y``; they are not read.
    """
    path = Path(path)
    if not path.is_dir():
        raise ValueError(f"no run directory {str(path)!r}; name what `unbend cluster -o` wrote")
    rows = read_labels(path / "labels.parquet")
    fields: dict[str, Any] = {
        "labels": rows.labels,
        "names": rows.samples,
        "probability": np.asarray(rows.probability, dtype=np.float64),
        "outlier_score": np.asarray(rows.outlier_score, dtype=np.float64),
        "features": read_npy(path / "features.npy", "f"),
        "history": _history(path / "history.csv"),
        "broken": _broken(path / "broken.csv"),
    }
    fields |= _model(path / "model") | _thumbnails(path) | _passages(path, len(rows.labels))
    manifest = _json(path / "manifest.json")
    metrics = _json(path / "metrics.json")
    fields["truth"] = truth_from_metrics(metrics)
    fields["warnings"] = [str(w) for w in manifest.get("warnings", [])]
    config = _json(path / "config.json")
    about = _about(path, manifest, metrics, config, fields["thumbnails"] is not None)
    about |= given.pop("about", {})
    fields |= {"about": about, **given}
    return Facts(**(fields if noise else without_noise(fields)))


def _history(path: Path) -> list[dict[str, Any]]:
    if not path.is_file():
        return []
    with path.open(encoding="utf-8-sig", newline="") as file:
        return [{k: _number(v) for k, v in row.items() if k} for row in csv.DictReader(file)]


def _number(text: Any) -> Any:
    if text is None or text == "":
        return None
    try:
        return float(text)
    except (TypeError, ValueError):
        return text


def _broken(path: Path) -> list[tuple[str, str]]:
    if not path.is_file():
        return []
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.reader(file))[1:]
    return [(unquoted(row[0]), row[1] if len(row) > 1 else "") for row in rows if row]


def _model(path: Path) -> dict[str, Any]:
    """Facts from the saved model, without loading its network."""
    if not path.is_dir():
        return {}
    tensors, values = read_model(path)
    try:
        state = {
            k.removeprefix("labels."): v for k, v in tensors.items() if k.startswith("labels.")
        }
        model = LabelModel.from_state(state, values["labels"])
        config = Config.from_dict(values["config"])
        chosen = values.get("neighbors", {"metric": config.views.metric, "scores": {}})
        neighbors = NeighborChoice.from_dict(chosen)
        quantiles = values["surroundings"]["quantiles"]
        threshold = threshold_of({float(q): float(score) for q, score in quantiles.items()})
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{str(path)!r} is not a model of this version: {error}") from error
    return {
        "eigenvalues": model.eigenvalues,
        "merge_tree": model.merge_tree,
        "selection": model.selection,
        "outlier_threshold": threshold,
        "calibration": calibration_of(config, neighbors, model.candidates),
    }


def _thumbnails(path: Path) -> dict[str, Any]:
    pictures = read_npy(path / "thumbnails.npy", "u")
    if pictures is None:
        return {"thumbnails": None, "thumbnail_index": None}
    tree = _json(path / "thumbnails.json")
    indices = tree.get("indices", list(range(len(pictures))))
    return {"thumbnails": pictures, "thumbnail_index": np.asarray(indices, dtype=np.int64)}


def _passages(path: Path, n: int) -> dict[str, Any]:
    tree = _json(path / "passages.json")
    if not tree:
        return {}
    try:
        words = [[str(word) for word in cluster] for cluster in tree["words"]]
        texts = zip(tree["indices"], tree["passages"], strict=True)
        return {"words": words, "passages": {int(i): str(t) for i, t in texts if 0 <= i < n}}
    except (KeyError, TypeError, ValueError) as error:
        name = str(path / "passages.json")
        raise ValueError(f"{name!r} is damaged: {error}; cluster again") from error


def _json(path: Path) -> dict[str, Any]:
    return read_json(path) if path.is_file() else {}


def _about(
    path: Path,
    manifest: Mapping[str, Any],
    metrics: Mapping[str, Any],
    config: Mapping[str, Any],
    has_images: bool,
) -> dict[str, Any]:
    """Title, seed, time and version, from whichever file has them."""
    source = manifest.get("source", manifest.get("data", {}))
    source = source if isinstance(source, Mapping) else {"name": source}
    software = manifest.get("software", {})
    encoder = manifest.get("encoder")
    seconds = manifest.get("seconds")
    if isinstance(seconds, Mapping):
        seconds = sum(seconds.values())
    found = {
        "title": source.get("name") or metrics.get("data") or path.resolve().name,
        "data": source.get("name") or metrics.get("data"),
        "split": source.get("split") or metrics.get("split"),
        "kind": source.get("kind") or ("images" if has_images else "vectors"),
        "seed": manifest.get("seed", config.get("seed")),
        "seconds": seconds,
        "version": software.get("unbend", manifest.get("unbend")),
        "n_trained": manifest.get("n_trained"),
        "encoder": encoder.get("name") if isinstance(encoder, Mapping) else encoder,
        "settings": {k: v for k, v in config.items() if k != "seed"},
    }
    return {key: value for key, value in found.items() if value is not None}
