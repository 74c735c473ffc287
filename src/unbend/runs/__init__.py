"""The directory of a run: atomic writes, and models without pickle."""

from unbend.runs.arrays import npy_file
from unbend.runs.directory import RunDirectory, run_lock
from unbend.runs.labels import (
    LabelRows,
    labels_file,
    labels_files,
    needs_mark,
    read_labels,
    write_csv,
)
from unbend.runs.manifest import (
    JOURNAL,
    MANIFEST_FORMAT,
    Log,
    check_files,
    check_run,
    read_json,
    record_file,
    software,
)
from unbend.runs.model import read_model, write_model

__all__ = [
    "JOURNAL",
    "MANIFEST_FORMAT",
    "LabelRows",
    "Log",
    "RunDirectory",
    "check_files",
    "check_run",
    "labels_file",
    "labels_files",
    "needs_mark",
    "npy_file",
    "read_json",
    "read_labels",
    "read_model",
    "record_file",
    "run_lock",
    "software",
    "write_csv",
    "write_model",
]
