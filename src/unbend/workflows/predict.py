"""What ``unbend predict`` does, as one function."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unbend.estimator import MLC, load
from unbend.networks.encoders import Encoder, load_encoder
from unbend.progress import Progress, Tick, silent
from unbend.runs import LabelRows, labels_file, needs_mark, read_json
from unbend.workflows.inputs import Inputs, read_inputs
from unbend.workflows.streaming import chunks

__all__ = ["PredictResult", "load_run", "predict"]


@dataclass(frozen=True)
class PredictResult:
    """What a prediction came to."""

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
        """A line for people."""
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
    """Label new samples with the model of a run; the function behind ``unbend predict``.

    The input is read, labelled and written piece by piece, in its order: memory does not grow
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
        A further column per cluster.
    overwrite : bool
        Replace ``out`` if it is there.
    encoder : str
        ``"auto"`` takes the encoder that the run was made with.
    device : str
        Device of the encoder.
    progress : callable
        Receives :class:`~unbend.progress.Tick`.
    """
    start = time.perf_counter()
    out = _check_out(Path(out), overwrite)
    model = load_run(run)
    chosen = encoder_of_run(Path(run), device) if encoder == "auto" else encoder
    inputs = read_inputs(input, encoder=chosen, device=device, progress=progress)
    outliers = _write(out, model, inputs, str(input), probabilities, progress)
    seconds = time.perf_counter() - start
    return PredictResult(out, inputs.n_samples, outliers, len(inputs.source.broken), seconds)


def load_run(run: str | Path) -> MLC:
    """The model of a run directory, or of a model directory itself."""
    run = Path(run)
    if not run.is_dir():
        raise ValueError(f"no run {str(run)!r}; make one with: unbend cluster INPUT -o {run}")
    if (run / "checkpoints").is_dir() and not (run / "model").is_dir():
        raise ValueError(f"the run {str(run)!r} is unfinished; finish it with cluster --resume")
    return load(run / "model" if (run / "model").exists() else run)


def encoder_of_run(run: Path, device: str) -> Encoder | str:
    """The encoder that a run was made with, weights checked; ``"none"`` if there was none."""
    manifest = run / "manifest.json"
    known = read_json(manifest).get("encoder") if manifest.is_file() else None
    if known is None:
        return "none"
    try:
        name, fingerprint, resolution = (known[k] for k in ("name", "fingerprint", "resolution"))
        encoder = load_encoder(str(name), resolution=resolution, device=device)
    except (KeyError, TypeError) as error:
        raise ValueError(
            f"{str(manifest)!r} is damaged: no encoder is known by {known!r}"
        ) from error
    if encoder.fingerprint != fingerprint:
        raise ValueError(
            f"encoder {name!r} has other weights than the one that {str(run)!r} was made with; "
            "install that one, or cluster again"
        )
    return encoder


def _check_out(out: Path, overwrite: bool) -> Path:
    if out.suffix not in (".csv", ".parquet"):
        raise ValueError(f"-o must end in .csv or .parquet, got {str(out)!r}; rename it")
    if out.exists() and not overwrite:
        raise ValueError(f"{str(out)!r} is there already; name another or pass --overwrite")
    if out.is_dir() or not out.parent.is_dir():
        raise ValueError(f"cannot write {str(out)!r}: no such folder; make it, or name another")
    return out


def _write(
    out: Path, model: MLC, inputs: Inputs, spec: str, probabilities: bool, progress: Progress
) -> int:
    X, names, outliers = inputs.array(progress), inputs.source.names, 0
    if len(X) == 0:
        raise ValueError(f"{spec!r} holds no samples; give at least one")
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
