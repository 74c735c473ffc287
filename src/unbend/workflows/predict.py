"""The function behind ``unbend predict``."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unbend.estimator import MLC, load
from unbend.progress import Progress, Tick, silent
from unbend.runs import LabelRows, check_run, labels_file, needs_mark
from unbend.sources import Source, open_source
from unbend.workflows.outputs import check_folder
from unbend.workflows.streaming import chunks

__all__ = ["PredictResult", "image_side", "load_run", "predict"]


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
    source = open_source(input, image_size=image_side(model), progress=progress)
    outliers = _write(out, model, source, str(input), probabilities, progress)
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


def image_side(model: MLC) -> int | None:
    """Side length of the model's images, so that files are decoded at the same size."""
    record, shape = model._encoder_record, model._scaling.shape
    side = record["resolution"] if record is not None else shape[-1] if len(shape) == 3 else None
    return max(side) if isinstance(side, list) else side


def _check_out(out: Path, overwrite: bool) -> Path:
    if out.suffix not in (".csv", ".parquet"):
        raise ValueError(f"-o must end in .csv or .parquet, got {str(out)!r}; rename it")
    if out.exists() and not overwrite:
        raise ValueError(f"{str(out)!r} already exists; name another or pass --overwrite")
    if out.is_dir():
        raise ValueError(f"cannot write {str(out)!r}: it is a folder; name a file in it")
    check_folder(out)
    return out


def _write(
    out: Path, model: MLC, source: Source, spec: str, probabilities: bool, progress: Progress
) -> int:
    X, names, outliers = source.X, source.names, 0
    with labels_file(out, mark=out.suffix == ".csv" and needs_mark(names)) as write:
        for where, part in chunks(X):
            try:
                said = model.assess(part)
            except ValueError as error:
                raise ValueError(f"cannot label {spec!r}: {error}") from error
            outliers += int((said.outlier_score > model.outlier_threshold_).sum())
            p = said.probabilities
            write(
                LabelRows(
                    names[where],
                    said.labels,
                    p.max(axis=1),
                    said.outlier_score,
                    p if probabilities else None,
                )
            )
            progress(Tick("labelling", where.stop, len(X)))
    return outliers
