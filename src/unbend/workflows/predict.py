"""The function behind ``unbend predict``."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from unbend.disk import atomic_directory
from unbend.estimator import MLC, Assessment, load
from unbend.explore.keep import CuratedModel, curated_labels
from unbend.notebook import count
from unbend.progress import Progress, Tick, silent
from unbend.runs import LabelRows, check_run, labels_file, needs_mark, write_csv
from unbend.runs.arrays import read_npy
from unbend.runs.manifest import listed_files
from unbend.sources import Source, open_source
from unbend.tables import TABLE_SUFFIXES, is_table, near_names, open_table
from unbend.workflows.image_folders import write_folders
from unbend.workflows.label_rows import label_rows
from unbend.workflows.outputs import check_folder
from unbend.workflows.result import NOT_IN_JSON, Result
from unbend.workflows.run_files import broken_table
from unbend.workflows.streaming import chunks

__all__ = [
    "FORMATS",
    "PredictResult",
    "check_out",
    "list_broken",
    "load_run",
    "predict",
    "reading_options",
]

FORMATS = ("csv", "parquet", "imagefolder")
_STDOUT = Path("-")


@dataclass(frozen=True)
class PredictResult(Result):
    """The result of a prediction."""

    out: Path
    n_samples: int
    n_outliers: int
    n_broken: int
    seconds: float
    broken: Path | None = None
    read: str = ""  # what the input was
    unit: str = field(default="row", metadata=NOT_IN_JSON)  # what may be broken: a file or a row

    def summary(self) -> str:
        """What was read, and what was found."""
        lost = count(self.n_broken, f"broken {self.unit}")
        broken = f", {lost} left out" if self.n_broken else ""
        broken += f" (see {self.broken})" if self.broken is not None else ""
        where = "standard output" if self.out == _STDOUT else self.out
        outliers = "1 outlier" if self.n_outliers == 1 else f"{self.n_outliers or 'no'} outliers"
        text = (
            f"{count(self.n_samples, 'sample')} labelled, {outliers} among them"
            f"{broken}, {self.seconds:.0f} s; written to {where}"
        )
        return f"{self.read}\n{text}"


def predict(
    run: str | Path,
    input: Any,
    *,
    out: str | Path = "labels.csv",
    format: str | None = None,
    probabilities: bool = False,
    curated: bool = False,
    overwrite: bool = False,
    id: str | None = None,
    max_broken: float = 0.1,
    strict: bool = False,
    encoder: str = "auto",
    device: str = "auto",
    copy: bool = False,
    progress: Progress = silent,
) -> PredictResult:
    """Label new samples with the model of a run.

    The input is read, labelled and written in chunks that keep its order, so memory does not grow
    with it. From a table, the columns that the run used are taken by name.

    Parameters
    ----------
    run : path
        A run directory, or a directory that :meth:`unbend.MLC.save` wrote.
    input : path, str, array, table or list
        Samples of the kind that the model was fitted on; a single image or text file, too.
    out : path
        What to write. A table, ``.csv`` or ``.parquet``, has the columns sample, cluster,
        probability, outlier_score; ``-`` is csv on standard output.
    format : {"csv", "parquet", "imagefolder"}, optional
        By default what ``out`` ends in. ``"imagefolder"`` makes a folder per cluster with links
        to the images.
    probabilities : bool
        Add a column per cluster.
    curated : bool
        Give the clusters as corrected in ``unbend explore``, with their names. Merges and names
        apply to new samples as they are; after a split or a move a new sample follows the nearest
        sample of the run that had the same cluster before.
    overwrite : bool
        Replace ``out`` if it exists.
    id : str, optional
        The column of ids; by default the one of the run.
    max_broken, strict
        What may be skipped, as in :func:`unbend.workflows.cluster`. Skipped files and rows are
        listed in ``OUT.broken.csv``.
    encoder : str
        Where to find the encoder of the run if it has moved; other weights are refused.
        ``"auto"`` uses the one that the run was made with.
    device : str
        Device of the encoder.
    copy : bool
        Copy images instead of linking to them.
    progress : callable
        Receives :class:`~unbend.progress.Tick`.
    """
    start = time.perf_counter()
    out, format = check_out(Path(out), format, overwrite, probabilities, copy)
    model = load_run(run, None if encoder == "auto" else encoder)
    model.set_params(device=device)
    corrected = _corrected(Path(run), model) if curated else None
    source = open_source(
        input,
        image_size=model.image_side,
        max_broken=max_broken,
        strict=strict,
        progress=progress,
        **reading_options(model, input, id),
    )
    if format == "imagefolder" and source.paths is None:
        raise ValueError("--format imagefolder is for image files; use csv or parquet")
    with _writer(out, format, source, copy) as write:
        outliers = _label(write, model, source, _name(input), probabilities, corrected, progress)
    listed = list_broken(out, source)
    seconds = time.perf_counter() - start
    return PredictResult(
        out, len(source), outliers, len(source.broken), seconds, listed, source.describe(),
        source.unit,
    )  # fmt: skip


def load_run(run: str | Path, encoder: str | None = None) -> MLC:
    """Load the model of a run directory, or a saved model directory."""
    run = Path(run)
    check_run(run, "model")
    model = load(run, encoder=encoder)
    if encoder is not None and model._reader.encoder_name is None:
        raise ValueError(f"the run {str(run)!r} was made without an encoder; leave --encoder out")
    return model


def reading_options(model: MLC, input: Any, id: str | None) -> dict[str, Any]:
    """Options of :func:`open_source` to read a table as the run did."""
    known = model._reading or {}
    file = isinstance(input, (str, Path)) and str(input).lower().endswith(TABLE_SUFFIXES)
    if not (file and Path(input).expanduser().is_file()) and not is_table(input):
        return {"id": id}
    columns = open_table(input).columns
    found: dict[str, Any] = {"id": id}
    if id is None and known.get("id") in columns:
        found["id"] = known["id"]
    if known.get("columns"):
        found["columns"] = known["columns"]
    if model._reader.is_of_texts:
        found["text"] = known.get("text") or _text_column(columns, input)
    needed = [*found.get("columns", ()), *([found["text"]] if "text" in found else ())]
    missing = next((name for name in needed if name not in columns), None)
    if missing is not None:
        raise ValueError(
            f"the model was fitted on column {missing!r}, which {_name(input)!r} does not have; "
            f"{near_names(missing, columns)}"
        )
    return found


def _text_column(columns: list[str], input: Any) -> str:
    if len(columns) == 1:
        return columns[0]
    raise ValueError(
        f"the model was fitted on texts, and {_name(input)!r} has several columns: "
        f"{', '.join(columns[:9])}; give a table of one column, or a folder of texts"
    )


def _name(input: Any) -> str:
    return str(input) if isinstance(input, (str, Path)) else "the samples"


def check_out(
    out: Path, format: str | None, overwrite: bool, probabilities: bool, copy: bool
) -> tuple[Path, str]:
    if format is not None and format not in FORMATS:
        raise ValueError(f"`format` must be one of {', '.join(FORMATS)}, got {format!r}")
    if format == "imagefolder":
        if out == _STDOUT or probabilities:
            what = "-o -" if out == _STDOUT else "--probabilities"
            raise ValueError(f"--format imagefolder writes folders; leave {what} out")
        out = Path("clusters") if out == Path("labels.csv") else out
        if out.exists():
            raise ValueError(f"{str(out)!r} already exists; name another with -o")
        return out, format
    if copy:
        raise ValueError("--copy is for --format imagefolder; leave it out")
    if out == _STDOUT:
        if format == "parquet":
            raise ValueError("-o - writes csv; name a file for parquet")
        return out, "csv"
    if format is not None and out.name == "labels.csv":
        out = out.with_suffix(f".{format}")
    if out.suffix not in (".csv", ".parquet") or format not in (None, out.suffix[1:]):
        wanted = ".csv or .parquet" if format is None else f".{format}"
        raise ValueError(f"-o must end in {wanted}, got {str(out)!r}; rename it")
    if out.exists() and not overwrite:
        raise ValueError(f"{str(out)!r} already exists; name another or pass --overwrite")
    if out.exists() and out.name in listed_files(out.parent):
        raise ValueError(f"{str(out)!r} belongs to a run, which needs it; name another with -o")
    check_folder(out)
    return out, out.suffix[1:]


def _corrected(run: Path, model: MLC) -> CuratedModel:
    check_run(run, "labels.parquet", "labels.csv", "features.npy")
    _, curation = curated_labels(run)
    return CuratedModel(
        curation,
        read_npy(run / "features.npy", "f"),
        model.n_clusters_,
        model._label_model.n_clusters,
    )


def _rows(
    names: Sequence[str], said: Assessment, probabilities: bool, corrected: CuratedModel | None
) -> LabelRows:
    """The rows of the table for some samples."""
    rows = label_rows(names, said, all_probabilities=probabilities)
    if corrected is None:
        return rows
    labels, shares = corrected.assign(said.labels, said.probabilities, said.Z)
    place = {g: i for i, g in enumerate(corrected.groups)}
    return replace(
        rows,
        labels=labels,
        probability=shares[np.arange(len(labels)), [place[g] for g in labels.tolist()]],
        all_probabilities=shares if probabilities else None,
        clusters=corrected.groups,
        names=[corrected.name(g) for g in labels.tolist()],
    )


@contextmanager
def _writer(
    out: Path, format: str, source: Source, copy: bool
) -> Iterator[Callable[[LabelRows], None]]:
    """Where rows of labels go."""
    mark = format == "csv" and needs_mark(source.names)
    if format == "imagefolder":
        assert source.paths is not None  # checked before
        rows: list[LabelRows] = []
        yield rows.append
        with atomic_directory(out) as folder:
            labels = [int(q) for part in rows for q in part.labels]
            names = [name for part in rows for name in part.names or ()]
            given = dict(zip(labels, names, strict=True)) if names else None
            write_folders(labels, source.paths, folder, copy, given)
    elif out == _STDOUT:  # complete or absent, like a file
        with tempfile.TemporaryDirectory() as folder_name:
            file = Path(folder_name) / "labels.csv"
            with labels_file(file) as write:
                yield write
            sys.stdout.write(file.read_bytes().decode())
            sys.stdout.flush()
    else:
        with labels_file(out, mark=mark) as write:
            yield write


def list_broken(out: Path, source: Source) -> Path | None:
    if not source.broken or out == _STDOUT:
        return None
    path = out.with_name(f"{out.stem}.broken.csv")
    write_csv(path, *broken_table(source))
    return path


def _label(
    write: Callable[[LabelRows], None],
    model: MLC,
    source: Source,
    spec: str,
    probabilities: bool,
    corrected: CuratedModel | None,
    progress: Progress,
) -> int:
    X, names, outliers = source.X, source.names, 0
    for where, part in chunks(X):
        try:
            said = model.assess(part)
        except ValueError as error:
            raise ValueError(f"cannot label {spec!r}: {error}") from error
        outliers += int((said.outlier_score > model.outlier_threshold_).sum())
        write(_rows(names[where], said, probabilities, corrected))
        progress(Tick("labelling", where.stop, len(X)))
    return outliers
