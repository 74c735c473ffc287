"""What there is to look at: the samples of a run with names, scores, features, map and columns."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unbend.disk import Cache, default_cache_dir, hash_array
from unbend.explore.columns import MOST_CATEGORIES, Column, as_column, read_table
from unbend.explore.pictures import Pictures, open_pictures
from unbend.report import Facts, facts_of_run
from unbend.report.map2d import lay_out
from unbend.runs import check_run, read_json
from unbend.sources import open_source

__all__ = ["Material", "open_material"]

_EPS_SQ = 0.1


@dataclass(frozen=True)
class Material:
    """The samples of a run."""

    path: Path
    facts: Facts
    pictures: Pictures
    columns: tuple[Column, ...]
    texts: Sequence[str] | None
    eps_sq: float
    encoder: str | None = None

    @property
    def n(self) -> int:
        """Number of samples."""
        return len(self.facts.labels)

    @cached_property
    def features(self) -> NDArray[np.floating]:
        """Z on the unit sphere; a column of ones if the run has none."""
        Z = self.facts.features
        return np.ones((self.n, 1), np.float32) if Z is None else Z

    @cached_property
    def probability(self) -> NDArray[np.float64]:
        """Confidence of each sample; one if the run has none."""
        p = self.facts.probability
        return np.ones(self.n) if p is None else np.nan_to_num(p)

    @cached_property
    def outlier_score(self) -> NDArray[np.float64]:
        """Outlier score of each sample; zero if the run has none."""
        s = self.facts.outlier_score
        return np.zeros(self.n) if s is None else np.nan_to_num(s)

    @cached_property
    def positions(self) -> NDArray[np.uint16]:
        """The map (n, 2): 0 … 65535 for −1 … 1, computed once per run and kept in the cache."""
        Z = self.facts.features
        if Z is None:
            side = int(np.ceil(np.sqrt(self.n)))
            grid = np.stack(np.divmod(np.arange(self.n), side), 1)
            return (grid * (65_535 / max(side - 1, 1))).astype(np.uint16)
        cache = Cache(default_cache_dir() / "maps", most=20)
        name = hash_array(Z)
        found = cache.get(name)
        if found is not None and found.arrays["map"].shape == (self.n, 2):
            return found.arrays["map"]
        spots = ((lay_out(Z) + 1) / 2 * 65_535).round().astype(np.uint16)
        cache.put(name, {"map": spots})
        return spots

    @cached_property
    def searchable(self) -> list[str]:
        """Name and text of each sample in lower case."""
        names = [str(name).casefold() for name in self.facts.names]
        if self.texts is None:
            return names
        return [f"{a}\n{b.casefold()}" for a, b in zip(names, self.texts, strict=True)]


def open_material(
    run: str | Path,
    *,
    images: str | Path | None = None,
    columns: str | Path | None = None,
    text: str | None = None,
) -> Material:
    """Read a finished run.

    Parameters
    ----------
    run : path
        A directory that ``unbend cluster`` wrote.
    images : path, optional
        Folder of the images, if they have moved since they were clustered.
    columns : path, optional
        A ``.csv`` or ``.parquet`` table with a row per sample, in the order of the run, to colour
        by; a column called ``text`` is shown as text. A run of texts knows its own.
    text : str, optional
        The column of ``columns`` that holds the text.
    """
    run = Path(run)
    check_run(run, "labels.parquet", "labels.csv", "features.npy", "config.json", "thumbnails.npy")
    facts = facts_of_run(run, noise=True)
    table = {} if columns is None else read_table(Path(columns), len(facts.labels))
    if text is not None and text not in table:
        known = ", ".join(table) or "none; give --columns"
        raise ValueError(f"no column {text!r} for --text; known: {known}")
    written = text or ("text" if "text" in table else None)
    model = _model(run)
    if written is not None:
        texts: Sequence[str] | None = [str(v) for v in table.pop(written)]
    else:
        texts = _own_texts(run, facts, model) if facts.about.get("kind") == "texts" else None
    encoder = model.get("encoder")
    return Material(
        run,
        facts,
        open_pictures(run, facts, images),
        (*_own_columns(facts), *(as_column(name, v) for name, v in table.items())),
        texts,
        _eps_sq(model),
        str(encoder.get("name")) if isinstance(encoder, dict) else None,
    )


def _model(run: Path) -> dict[str, Any]:
    path = run / "model" / "model.json"
    return read_json(path) if path.is_file() else {}


def _eps_sq(model: dict[str, Any]) -> float:
    """ε² of the labelling, for coding lengths."""
    labels = model.get("labels", {})
    value = labels.get("eps_sq", _EPS_SQ) if isinstance(labels, dict) else _EPS_SQ
    return float(value)


def _own_texts(run: Path, facts: Facts, model: dict[str, Any]) -> list[str]:
    """The texts that were clustered, from the input; if it has changed, the passages of the run."""
    reading = model.get("reading") or {}
    options: dict[str, Any] = {name: reading.get(name) for name in ("id", "text")}
    with suppress(ValueError, TypeError, OSError):  # moved, changed, or never a file
        source = open_source(read_json(run / "config.json").get("input"), max_broken=1.0, **options)
        if source.kind == "texts" and list(source.names) == list(facts.names):
            return [str(text) for text in source.X.tolist()]
    known = facts.passages or {}
    return [known.get(i, str(name)) for i, name in enumerate(facts.names)]


def _own_columns(facts: Facts) -> list[Column]:
    """What every run has to colour by, beside the clusters."""
    found = []
    if facts.probability is not None:
        found.append(as_column("confidence", facts.probability))
    if facts.outlier_score is not None:
        found.append(as_column("outlier score", facts.outlier_score))
    labels = [f"Cluster {q}" for q in range(facts.n_clusters)]
    if len(labels) <= MOST_CATEGORIES:
        codes = facts.labels.astype(np.uint8)
        found.append(Column("before corrections", "category", codes, categories=tuple(labels)))
    folders = [name.split("/", 1)[0] if "/" in name else "" for name in facts.names]
    if len(set(folders)) > 1:
        found.append(as_column("folder", np.array(folders)))
    return found
