"""Write the files of a run from its trained model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from unbend import __version__
from unbend.disk import hash_lines
from unbend.estimator import MLC, Assessment
from unbend.metrics.comparison import TimedLabels
from unbend.metrics.comparison import compare as compare_methods
from unbend.metrics.tables import Table
from unbend.networks import Encoder
from unbend.pixels.duplicates import DuplicateGroup, duplicate_note, duplicate_table
from unbend.progress import Progress, Tick
from unbend.report import choose_passages, compare_with_truth, make_thumbnails, write_report
from unbend.runs import (
    MANIFEST_FORMAT,
    Log,
    RunDirectory,
    labels_files,
    needs_mark,
    npy_file,
    software,
)
from unbend.sources import NamedSet, Source
from unbend.workflows.inputs import Inputs
from unbend.workflows.label_rows import label_rows
from unbend.workflows.streaming import chunks, slices

__all__ = ["Written", "broken_table", "describe_source", "write_broken", "write_run_files"]


class Written(NamedTuple):
    """The table of peers, the scores and the report, if wanted, and the number of outliers."""

    table: Table | None
    scores: dict[str, Any] | None
    report: Path | None
    n_noise: int


def write_run_files(
    run: RunDirectory,
    model: MLC,
    inputs: Inputs,
    *,
    identity: dict[str, Any],
    spec: str,
    rows: NDArray[np.int64] | None,
    log: Log,
    compare: bool,
    report: bool,
    progress: Progress,
    groups: Sequence[DuplicateGroup] = (),
) -> Written:
    """Write all files of a run."""
    source = inputs.source
    with log.stage("labelling"):
        labels = _write_tables(run, model, inputs, trained_on_all=rows is None, progress=progress)
    run.write_history(model.history_)
    read = {"id": source.reading.get("id"), "columns": source.reading.get("columns")}
    run.write_json("config.json", {"input": spec, **read, **identity, **model.config_.to_dict()})
    write_broken(run, source)
    if groups:
        run.write_table("duplicates.csv", *duplicate_table(groups, source.names))
        log.warnings.append(duplicate_note(groups))
    scores = _scores(inputs, labels)
    if scores is not None:
        run.write_json("metrics.json", scores)
    if source.kind == "images":
        _write_thumbnails(run, source.X, labels)
    if source.kind == "texts":
        run.write_json(
            "passages.json", choose_passages(source.X.tolist(), labels, model.n_clusters_)
        )
    table = _compare(model, inputs, labels, log.seconds.get("training", 0.0)) if compare else None
    run.write_json("manifest.json", _manifest(model, inputs, labels, identity, log))
    page = None
    if report:
        progress(Tick("report", 0, 1))
        write_report(run.results, y=source.y, classes=source.classes)
        page = run.path / "report.html"
        progress(Tick("report", 1, 1))
    return Written(table, scores, page, int((labels < 0).sum()))


def write_broken(run: RunDirectory, source: Source) -> None:
    """List the files and rows that could not be used in ``broken.csv``, if there are any."""
    if source.broken:
        run.write_table("broken.csv", *broken_table(source))


def broken_table(source: Source) -> tuple[list[str], Iterator[list[str]]]:
    """Header and rows of ``broken.csv``."""
    first = "sample" if source.paths is None else "path"
    return [first, "reason"], ([str(item.path), item.reason] for item in source.broken)


def describe_source(source: Source) -> dict[str, Any]:
    """The entry ``data`` of ``manifest.json``."""
    return {
        "name": source.name,
        "split": source.split,
        "kind": source.kind,
        "shape": list(source.X.shape),
        "dtype": str(source.X.dtype),
        "sha256": hash_lines(source.hashes),
    }


def _write_thumbnails(run: RunDirectory, images: NDArray[Any], labels: NDArray[np.int64]) -> None:
    pictures, indices = make_thumbnails(images, labels=labels)
    with npy_file(run.results / "thumbnails.npy", pictures.shape, np.uint8) as write:
        write(pictures)
    run.write_json("thumbnails.json", {"indices": indices})


def _write_tables(
    run: RunDirectory, model: MLC, inputs: Inputs, *, trained_on_all: bool, progress: Progress
) -> NDArray[np.int64]:
    """Write ``labels.csv``, ``labels.parquet`` and ``features.npy`` in chunks."""
    X, names = inputs.source.X, inputs.source.names
    labels = np.empty(len(X), dtype=np.int64)
    width = model.config_.network.dim
    with (
        labels_files(run.results, "labels", mark=needs_mark(names)) as write,
        npy_file(run.results / "features.npy", (len(X), width)) as write_features,
    ):
        for where, found in _assess(model, X, trained_on_all):
            # Samples of the fit keep its labels; they differ from found.labels at most in ties.
            labels[where] = model.labels_[where] if trained_on_all else found.labels
            write(label_rows(names[where], found, labels=labels[where]))
            write_features(found.Z)
            progress(Tick("writing", where.stop, len(X)))
    return labels


def _assess(
    model: MLC, X: NDArray[Any], trained_on_all: bool
) -> Iterator[tuple[slice, Assessment]]:
    """Slices of the samples and their predictions; nothing is encoded twice."""
    if trained_on_all and model.holds_fit_output:
        return ((rows, model.assess_fitted(rows)) for rows in slices(X))
    return ((rows, model.assess(part)) for rows, part in chunks(X))


def _scores(inputs: Inputs, labels: NDArray[np.int64]) -> dict[str, Any] | None:
    source = inputs.source
    if source.y is None:
        return None
    found = compare_with_truth(source.y, labels, classes=source.classes)
    return {
        "data": source.name,
        "split": source.split,
        "n": len(labels),
        "MLC": found["scores"],
        "chance": found["chance"],
        "contingency": {key: found[key] for key in ("classes", "clusters", "table")},
    }


def _compare(model: MLC, inputs: Inputs, labels: NDArray[np.int64], seconds: float) -> Table:
    source = inputs.source
    X = model.embed(source.X) if source.kind == "texts" else inputs.embeddings()
    assert source.y is not None  # checked before training
    data = NamedSet(name=source.name, split=source.split, X=np.asarray(X), y=source.y)
    return compare_methods(data, {"MLC": [TimedLabels(labels, seconds)]})


def _manifest(
    model: MLC, inputs: Inputs, labels: NDArray[np.int64], identity: dict[str, Any], log: Log
) -> dict[str, Any]:
    source, encoder = inputs.source, inputs.encoder
    return {
        "format": MANIFEST_FORMAT,
        "software": software(__version__),
        "identity": identity,
        "data": describe_source(source),
        "encoder": _encoder(model, encoder),
        "n_samples": len(labels),
        "n_clusters": model.n_clusters_,
        "n_trained": identity["train_on"],
        "n_broken": len(source.broken),
        "seed": identity["seed"],
        "config": model.config_.to_dict(),
        "seconds": log.seconds,
        "warnings": log.warnings,
    }


def _encoder(model: MLC, encoder: Encoder | None) -> dict[str, Any] | None:
    if model._reader.is_of_texts:
        return {"name": model._reader.encoder_name}
    return None if encoder is None else encoder.describe()
