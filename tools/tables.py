"""Extract small labelled data sets from packages to ``tables/NAME.npz`` with arrays X and y.

Tables come from Debian's r-cran-mlbench, series of equal length from PyPI's aeon. Neither R nor
aeon is installed: the packages are only unpacked.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import warnings
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unbend.disk import atomic_open

__all__ = ["AEON", "MLBENCH", "install_mlbench", "install_series", "read_ts", "run"]

# name → (table, column of the labels, columns to leave out: who spoke is no feature of a vowel)
MLBENCH = {
    "satellite": ("Satellite", "classes", ()),
    "vowel": ("Vowel", "Class", ("V1",)),
    "vehicle": ("Vehicle", "Class", ()),
    "glass": ("Glass", "Type", ()),
    "soybean": ("Soybean", "Class", ()),
    "ionosphere": ("Ionosphere", "Class", ()),
    "dna": ("DNA", "Class", ()),
    "letter": ("LetterRecognition", "lettr", ()),
}
AEON = {
    "osuleaf": "OSULeaf",
    "arrowhead": "ArrowHead",
    "gunpoint": "GunPoint",
    "italypowerdemand": "ItalyPowerDemand",
    "acsf1": "ACSF1",
    "japanesevowels": "JapaneseVowels_eq",
}


def install_mlbench(directory: Path) -> None:
    """Extract the tables from Debian's package, unless all are installed."""
    if _all_there(directory, MLBENCH):
        return
    if shutil.which("apt-get") is None or shutil.which("dpkg") is None:
        raise OSError("needs the Debian package r-cran-mlbench, and there is no apt-get")
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        run(["apt-get", "download", "-qq", "r-cran-mlbench"], work)
        (package,) = work.glob("*.deb")
        run(["dpkg", "-x", package.name, "files"], work)
        for target, (table, labels, left_out) in MLBENCH.items():
            (file,) = (work / "files").rglob(f"{table}.rda")
            _write(directory, target, *_read_rda(file, table, labels, left_out))


def install_series(directory: Path) -> None:
    """Extract the series from aeon's wheel, unless all are installed."""
    if _all_there(directory, AEON):
        return
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "aeon==1.6.0"]
        run(pip, work)
        (wheel,) = work.glob("*.whl")
        with zipfile.ZipFile(wheel) as files:
            for target, series in AEON.items():
                folder = f"aeon/datasets/data/{series.removesuffix('_eq')}"
                parts = [
                    read_ts(files.read(f"{folder}/{series}_{part}.ts").decode())
                    for part in ("TRAIN", "TEST")
                ]
                X, y = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
                _write(directory, target, X, y)


def read_ts(text: str) -> tuple[NDArray[np.float32], NDArray[np.str_]]:
    """Series of equal length from the format of timeseriesclassification.com.

    After a header, each line is one sample: its channels and then its label, separated by colons.

    >>> read_ts("# note\\n@classLabel true a b\\n@data\\n1,2:3,4:a\\n5,6:7,8:b\\n")[0].tolist()
    [[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]]
    """
    _, mark, body = text.partition("@data")
    lines = [line.strip().split(":") for line in body.splitlines() if line.strip()]
    if not mark or not lines:
        raise ValueError("the file has no samples after a line '@data'; is it a .ts file?")
    rows = [[float(x) for channel in line[:-1] for x in channel.split(",")] for line in lines]
    lengths = {len(row) for row in rows}
    if len(lengths) > 1:
        raise ValueError(f"the series have {len(lengths)} different lengths; only one is supported")
    return np.array(rows, dtype=np.float32), np.array([line[-1] for line in lines])


def run(command: list[str], work: Path | None = None) -> None:
    """Run a command; raise an OSError with its last error line if it fails."""
    done = subprocess.run(command, cwd=work, stdin=subprocess.DEVNULL, capture_output=True)
    if done.returncode:
        lines = (done.stderr or done.stdout).decode(errors="replace").strip().splitlines()
        raise OSError(f"`{' '.join(command)}` failed: {lines[-1] if lines else done.returncode}")


def _read_rda(
    file: Path, table: str, labels: str, left_out: tuple[str, ...]
) -> tuple[NDArray[np.float32], NDArray[Any]]:
    import rdata

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns of attributes that are not used here
        frame = rdata.read_rda(file)[table].dropna()
    columns = frame.drop(columns=[labels, *left_out])
    X = columns.astype(str).to_numpy(dtype=np.float32)  # levels of R's factors are numbers as text
    return X, frame[labels].astype(str).to_numpy(dtype=str)


def _all_there(directory: Path, names: Iterable[str]) -> bool:
    return all((directory / "tables" / f"{name}.npz").is_file() for name in names)


def _write(directory: Path, name: str, X: NDArray[np.float32], labels: NDArray[Any]) -> None:
    if not np.isfinite(X).all():
        raise ValueError(f"{name} has missing values, and the suite expects none")
    y = np.unique(labels, return_inverse=True)[1].astype(np.int64)
    folder = directory / "tables"
    folder.mkdir(parents=True, exist_ok=True)
    with atomic_open(folder / f"{name}.npz") as file:
        np.savez_compressed(file, X=X, y=y)
