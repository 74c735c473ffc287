"""A run for a fitted model, so that it can be explored like one of the command line."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unbend.disk import atomic_write, to_json
from unbend.explore.serve import explore
from unbend.report import facts_of_model
from unbend.runs import MANIFEST_FORMAT, LabelRows, labels_files, needs_mark, npy_file

if TYPE_CHECKING:
    from unbend.estimator import MLC

__all__ = ["explore_model", "write_model_run"]


def explore_model(
    model: MLC,
    X: Any,
    *,
    images: Any = None,
    names: Sequence[str] | None = None,
    path: str | Path | None = None,
    **options: Any,
) -> Path:
    """Write a run for a model and serve its page; see :meth:`unbend.MLC.explore`."""
    run = Path(tempfile.mkdtemp(prefix="unbend-")) / "model" if path is None else Path(path)
    if not (run / "manifest.json").is_file():
        write_model_run(run, model, X, images=images, names=names)
    explore(run, **options)
    return run


def write_model_run(
    run: Path, model: MLC, X: Any, *, images: Any = None, names: Sequence[str] | None = None
) -> None:
    """The files of a run that explore, export and predict need; the manifest comes last."""
    if run.exists() and any(run.iterdir()):
        raise ValueError(f"{str(run)!r} holds other files; name a new directory")
    facts = facts_of_model(model, X, images=images, names=names, noise=True)
    assert facts.probability is not None
    assert facts.outlier_score is not None
    assert facts.features is not None
    run.mkdir(parents=True, exist_ok=True)
    rows = LabelRows(facts.names, facts.labels, facts.probability, facts.outlier_score)
    with labels_files(run, "labels", mark=needs_mark(facts.names)) as write:
        write(rows)
    with npy_file(run / "features.npy", facts.features.shape) as put:
        put(facts.features)
    if facts.thumbnails is not None:
        with npy_file(run / "thumbnails.npy", facts.thumbnails.shape, "u1") as put:
            put(facts.thumbnails)
        index = {"indices": facts.thumbnail_index}
        atomic_write(run / "thumbnails.json", to_json(index))
    model.save(run / "model")
    atomic_write(run / "config.json", to_json(model.config_.to_dict(), indent=2))
    about = {"name": "model", "kind": facts.about.get("kind")}
    manifest = {"format": MANIFEST_FORMAT, "data": about, "n_samples": len(facts.labels)}
    atomic_write(run / "manifest.json", to_json(manifest, indent=2))
