"""The function behind ``unbend predict``."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from unbend.estimator import MLC, Assessment, load
from unbend.explore.keep import CuratedModel, curated_labels
from unbend.progress import Progress, Tick, silent
from unbend.runs import LabelRows, check_run, labels_file, needs_mark
from unbend.sources import Source, open_source
from unbend.workflows.streaming import chunks

__all__ = ["PredictResult", "load_run", "predict"]


@dataclass(frozen=True)
class PredictResult:
    """The result of a prediction."""

    out: Path
    n_samples: int
    n_outliers: int
    n_broken: int
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        """Plain dict, ready for JSON."""
        return {
            "out": str(self.out),
            "n_samples": self.n_samples,
            "n_outliers": self.n_outliers,
            "n_broken": self.n_broken,
            "seconds": round(self.seconds, 1),
        }

    def summary(self) -> str:
        """One line of text."""
        broken = f", {self.n_broken} broken files left out" if self.n_broken else ""
        return (
            f"{self.n_samples} samples labelled, {self.n_outliers} of them outliers{broken}, "
            f"{self.seconds:.0f} s; written to {self.out}"
        )


def predict(
    run: str | Path,
    input: Any,
    *,
    out: str | Path = "labels.csv",
    probabilities: bool = False,
    curated: bool = False,
    overwrite: bool = False,
    encoder: str = "auto",
    device: str = "auto",
    progress: Progress = silent,
) -> PredictResult:
    """Label new samples with the model of a run.

    The input is read, labelled and written in chunks that keep its order, so memory does not grow
    with it.

    Parameters
    ----------
    run : path
        A run directory, or a directory that :meth:`unbend.MLC.save` wrote.
    input : path, str or array
        Samples of the kind that the model was fitted on.
    out : path
        Table to write, ``.csv`` or ``.parquet``: sample, cluster, probability, outlier_score.
    probabilities : bool
        Add a column per cluster.
    curated : bool
        Give the clusters as corrected in ``unbend explore``, with their names. Merges and names
        apply to new samples as they are; after a split or a move a new sample follows the nearest
        sample of the run that had the same cluster before.
    overwrite : bool
        Replace ``out`` if it exists.
    encoder : str
        Where to find the encoder of the run if it has moved; other weights are refused.
        ``"auto"`` uses the one that the run was made with.
    device : str
        Device of the encoder.
    progress : callable
        Receives :class:`~unbend.progress.Tick`.
    """
    start = time.perf_counter()
    out = _check_out(Path(out), overwrite)
    model = load_run(run, None if encoder == "auto" else encoder)
    model.set_params(device=device)
    corrected = _corrected(Path(run)) if curated else None
    source = open_source(input, image_size=_side(model), progress=progress)
    outliers = _write(out, model, source, str(input), probabilities, corrected, progress)
    seconds = time.perf_counter() - start
    return PredictResult(out, len(source.X), outliers, len(source.broken), seconds)


def load_run(run: str | Path, encoder: str | None = None) -> MLC:
    """Load the model of a run directory, or a saved model directory."""
    run = Path(run)
    check_run(run, "model")
    model = load(run / "model" if (run / "model").exists() else run, encoder=encoder)
    if encoder is not None and model._encoder_record is None:
        raise ValueError(f"the run {str(run)!r} was made without an encoder; leave --encoder out")
    return model


def _side(model: MLC) -> int | None:
    """Side length of the model's images, so that files are decoded at the same size."""
    record, shape = model._encoder_record, model._scaling.shape
    side = record["resolution"] if record is not None else shape[-1] if len(shape) == 3 else None
    return max(side) if isinstance(side, list) else side


def _check_out(out: Path, overwrite: bool) -> Path:
    if out.suffix not in (".csv", ".parquet"):
        raise ValueError(f"-o must end in .csv or .parquet, got {str(out)!r}; rename it")
    if out.exists() and not overwrite:
        raise ValueError(f"{str(out)!r} already exists; name another or pass --overwrite")
    if out.is_dir() or not out.parent.is_dir():
        raise ValueError(f"cannot write {str(out)!r}: no such folder; make it, or name another")
    return out


def _corrected(run: Path) -> CuratedModel:
    check_run(run, "labels.parquet", "features.npy")
    _, curation = curated_labels(run)
    path = run / "features.npy"
    features = np.load(path, mmap_mode="r", allow_pickle=False) if path.is_file() else None
    return CuratedModel(curation, features)


def _rows(
    names: Sequence[str], said: Assessment, probabilities: bool, corrected: CuratedModel | None
) -> LabelRows:
    """What the table says of some samples."""
    p = said.probabilities
    if corrected is None:
        given = p if probabilities else None
        return LabelRows(names, said.labels, p.max(axis=1), said.outlier_score, given)
    labels, shares = corrected.assign(said.labels, p, said.Z)
    place = {g: i for i, g in enumerate(corrected.groups)}
    own = shares[np.arange(len(labels)), [place[g] for g in labels.tolist()]]
    return LabelRows(
        names,
        labels,
        own,
        said.outlier_score,
        shares if probabilities else None,
        clusters=corrected.groups,
        names=[corrected.name(g) for g in labels.tolist()],
    )


def _write(
    out: Path,
    model: MLC,
    source: Source,
    spec: str,
    probabilities: bool,
    corrected: CuratedModel | None,
    progress: Progress,
) -> int:
    X, names, outliers = source.X, source.names, 0
    with labels_file(out, mark=out.suffix == ".csv" and needs_mark(names)) as write:
        for where, part in chunks(X):
            try:
                said = model.assess(part)
            except ValueError as error:
                raise ValueError(f"cannot label {spec!r}: {error}") from error
            outliers += int((said.outlier_score > model.outlier_threshold_).sum())
            write(_rows(names[where], said, probabilities, corrected))
            progress(Tick("labelling", where.stop, len(X)))
    return outliers
