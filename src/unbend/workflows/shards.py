"""Split inputs of many files into units, each with one output file that is written atomically.

The name of an output depends only on its unit. A unit that is computed twice writes the same file
twice, so every sample is in the result exactly once, however often workers die.
"""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unbend.disk import atomic_open, atomic_write, hash_file, hash_values, to_json
from unbend.disk.files import remove_leftovers
from unbend.pixels.decode import EXTENSIONS, Unreadable, decode, read_image
from unbend.pixels.folders import list_images
from unbend.runs import LabelRows, labels_file, read_json, write_csv
from unbend.runs.manifest import PROGRAM
from unbend.sources import Broken
from unbend.sources.matrices import check_input_array
from unbend.tables import choose_columns, open_table, read_features
from unbend.workflows.label_rows import label_rows
from unbend.workflows.streaming import chunks

__all__ = ["Job", "UnitResult", "ShardedOutput", "Unit", "Worker", "list_units"]

IMAGES_PER_UNIT = 1024
_LARGEST_MEMBER = 2**28  # bytes of one image in a tar file
_JOB, _MANIFEST = "job.json", "manifest.json"


@dataclass(frozen=True)
class Unit:
    """What one worker does at a time: a parquet file, a tar file, or some images of a folder."""

    number: int
    kind: str
    root: str
    files: tuple[str, ...]


@dataclass(frozen=True)
class UnitResult:
    """The result of a unit."""

    number: int
    n_samples: int
    n_outliers: int = 0
    n_broken: int = 0
    error: str = ""


@dataclass(frozen=True)
class Job:
    """What to do with every unit: ``predict`` with a run, or ``embed`` with an encoder."""

    command: str
    out: str
    run: str = ""
    encoder: str = "auto"
    device: str = "auto"
    probabilities: bool = False


def list_units(input: str | Path) -> list[Unit]:
    """The units of a folder of parquet files, of tar files or of images, in a fixed order."""
    path = Path(input).expanduser().resolve()
    for kind in ("parquet", "tar"):
        if path.is_file() and path.suffix == f".{kind}":
            return [Unit(0, kind, str(path.parent), (path.name,))]
        names = sorted(p.name for p in path.glob(f"*.{kind}") if p.is_file())
        if names:
            return [Unit(i, kind, str(path), (name,)) for i, name in enumerate(names)]
    if not path.is_dir():
        raise ValueError(
            f"cannot cut {str(input)!r} into shards; give a folder of .parquet files, of .tar "
            "files or of images, or leave --engine out"
        )
    listing = list_images(path)
    if not listing.names:
        raise ValueError(f"{str(input)!r} holds no .parquet files, .tar files or images")
    cuts = range(0, len(listing.names), IMAGES_PER_UNIT)
    parts = [tuple(listing.names[start : start + IMAGES_PER_UNIT]) for start in cuts]
    return [Unit(i, "images", str(path), part) for i, part in enumerate(parts)]


@dataclass
class _Read:
    names: list[str]
    X: NDArray[Any]
    broken: list[Broken] = field(default_factory=list)


def read_unit(unit: Unit, size: int, columns: Sequence[str] | None = None) -> _Read:
    """The samples of a unit; images become squares of ``size`` pixels.

    ``columns`` are those of a table that are samples; without, they are chosen as for a fit.
    """
    root = Path(unit.root)
    if unit.kind == "parquet":
        (name,) = unit.files
        table = open_table(root / name)
        features = read_features(table, choose_columns(table, columns=columns))
        X = check_input_array(features, f"{name!r}")
        return _Read([f"{name}:{row}" for row in range(len(X))], X)
    images = _of_tar(root / unit.files[0], size) if unit.kind == "tar" else _of_files(unit, size)
    names, pixels, broken = [], [], []
    for name, found in images:
        if isinstance(found, bytes):
            names.append(name)
            pixels.append(np.frombuffer(found, np.uint8).reshape(3, size, size))
        else:
            broken.append(Broken(name, found))
    X = np.stack(pixels) if pixels else np.zeros((0, 3, size, size), np.uint8)
    return _Read(names, X, broken)


def _of_files(unit: Unit, size: int) -> Iterator[tuple[str, bytes | str]]:
    for name in unit.files:
        found = read_image(str(Path(unit.root) / name), size)
        yield name, found.reason if found.pixels is None else found.pixels


def _of_tar(path: Path, size: int) -> Iterator[tuple[str, bytes | str]]:
    """Images of a tar file, as webdataset writes them; nothing is extracted to the disk."""
    try:
        with tarfile.open(path, "r:") as archive:
            for member in archive:
                if not member.isfile() or not member.name.lower().endswith(EXTENSIONS):
                    continue
                yield f"{path.name}/{member.name}", _decode(archive, member, size)
    except tarfile.TarError as error:
        raise ValueError(f"{str(path)!r} is damaged or no tar file ({error})") from error


def _decode(archive: tarfile.TarFile, member: tarfile.TarInfo, size: int) -> bytes | str:
    if not 0 < member.size <= _LARGEST_MEMBER:
        return f"{member.size} bytes"
    file = archive.extractfile(member)
    assert file is not None  # it is a file
    try:
        return decode(io.BytesIO(file.read()), size)
    except tarfile.TarError:
        raise
    except Unreadable as error:
        return str(error)
    except Exception as error:  # Pillow's readers raise almost anything on bad content
        return " ".join(f"{type(error).__name__}: {error}".split())[:200]


class Worker:
    """Computes units of a job one by one; the model or encoder is loaded once."""

    def __init__(self, job: Job) -> None:
        self.job, self.out = job, ShardedOutput(job.out)
        self.columns: Sequence[str] | None = None
        if job.command == "predict":
            from unbend.workflows.predict import load_run

            self.model = load_run(job.run, None if job.encoder == "auto" else job.encoder)
            self.model.set_params(device=job.device, cache_dir=None)
            self.size = self.model.image_side or 64
            self.columns = (self.model._reading or {}).get("columns")
        else:
            from unbend.networks.encoders import load_encoder

            self.encoder = load_encoder(job.encoder, device=job.device)
            side = self.encoder.resolution or 64
            self.size = max(side) if isinstance(side, tuple) else side

    def __call__(self, unit: Unit) -> UnitResult:
        """Read, compute and write one unit; wrong input is returned, not raised."""
        try:
            read = read_unit(unit, self.size, self.columns)
            if self.job.command == "embed" and read.X.ndim != 4:
                raise ValueError(f"an encoder is for images, and {unit.files[0]!r} holds vectors")
            self.out.write_broken(unit.number, read.broken)
            do = self._predict if self.job.command == "predict" else self._embed
            return UnitResult(unit.number, len(read.X), do(unit, read), len(read.broken))
        except (ValueError, TypeError, OSError) as error:
            return UnitResult(unit.number, 0, error=f"{unit.files[0]}: {error}")

    def _predict(self, unit: Unit, read: _Read) -> int:
        outliers = 0
        with labels_file(self.out.part(unit.number)) as write:
            for where, rows in chunks(read.X):
                said = self.model.assess(rows)
                outliers += int((said.outlier_score > self.model.outlier_threshold_).sum())
                every = self.job.probabilities
                write(label_rows(read.names[where], said, all_probabilities=every))
            if not len(read.X):
                empty = np.zeros(0)
                write(LabelRows([], np.zeros(0, np.int64), empty, empty))
        return outliers

    def _embed(self, unit: Unit, read: _Read) -> int:
        import pyarrow as pa
        import pyarrow.parquet as pq

        width = self.encoder.dim
        Z = self.encoder.encode(read.X) if len(read.X) else np.zeros((0, width), np.float32)
        lists = pa.FixedSizeListArray.from_arrays(pa.array(Z.ravel()), width)
        names = [name.encode(errors="backslashreplace").decode() for name in read.names]
        table = pa.table({"sample": pa.array(names, pa.string()), "embedding": lists})
        with atomic_open(self.out.part(unit.number)) as file:
            pq.write_table(table, file)
        return 0


class ShardedOutput:
    """A folder with one parquet file per unit, and a manifest when all are there."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder).resolve()

    def part(self, number: int) -> Path:
        """The file of a unit."""
        return self.folder / f"part-{number:06d}.parquet"

    def write_broken(self, number: int, broken: list[Broken]) -> None:
        """List the files of a unit that were left out."""
        if broken:
            path = self.folder / f"broken-{number:06d}.csv"
            write_csv(path, ["path", "reason"], [tuple(b) for b in broken])

    def begin(self, identity: dict[str, Any], *, resume: bool) -> None:
        """Make the folder, or check that what is there belongs to the same job."""
        wanted = hash_values(identity)
        if self.folder.exists() and any(self.folder.iterdir()):
            if not (self.folder / _JOB).is_file():
                raise ValueError(f"{str(self.folder)!r} holds other files; name a new directory")
            if not resume:
                raise ValueError(
                    f"{str(self.folder)!r} holds shards already; pass --resume to continue them, "
                    "or name a new directory"
                )
            if read_json(self.folder / _JOB).get("identity") != wanted:
                raise ValueError(
                    f"{str(self.folder)!r} holds shards of another model or input; name a new "
                    "directory"
                )
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        atomic_write(self.folder / _JOB, to_json({"program": PROGRAM, "identity": wanted}) + "\n")

    def missing(self, units: list[Unit]) -> list[Unit]:
        """Units without an output yet."""
        return [unit for unit in units if not self.part(unit.number).is_file()]

    def finish(self, units: list[Unit]) -> dict[str, Any]:
        """Count and hash all parts, and write the manifest: the last step."""
        import pyarrow.parquet as pq

        remove_leftovers(self.folder, "part-")  # from workers that died while writing
        rows = {u.number: pq.read_metadata(self.part(u.number)).num_rows for u in units}
        broken = self.folder.glob("broken-*.csv")
        n_broken = sum(p.read_text(encoding="utf-8-sig").count("\n") - 1 for p in broken)
        files = {self.part(n).name: hash_file(self.part(n)) for n in rows}
        total = {"n_samples": sum(rows.values()), "n_broken": n_broken, "n_parts": len(units)}
        tree = {"program": PROGRAM, **total, "files": files}
        atomic_write(self.folder / _MANIFEST, to_json(tree, indent=1) + "\n")
        return total


def identity_of(job: Job, units: list[Unit], model: str) -> dict[str, Any]:
    """Everything the shards depend on: the files and their sizes, the model, the options."""
    sizes = [[(Path(u.root) / name).stat().st_size for name in u.files] for u in units]
    options = {k: v for k, v in asdict(job).items() if k not in ("out", "device", "run")}
    return {**options, "model": model, "units": [[u.kind, u.files] for u in units], "bytes": sizes}
