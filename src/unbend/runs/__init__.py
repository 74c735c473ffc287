"""A run on disk: whole files or none, models without pickle."""

from unbend.runs.arrays import npy_file
from unbend.runs.directory import RunDirectory
from unbend.runs.files import atomic_directory, atomic_open, atomic_write, to_json
from unbend.runs.labels import LabelRows, labels_file, needs_mark, read_labels, write_csv
from unbend.runs.manifest import Log, combined_hash, read_json, software
from unbend.runs.model import read_model, write_model

__all__ = [
    "LabelRows",
    "Log",
    "RunDirectory",
    "atomic_directory",
    "atomic_open",
    "atomic_write",
    "combined_hash",
    "labels_file",
    "needs_mark",
    "npy_file",
    "read_json",
    "read_labels",
    "read_model",
    "software",
    "to_json",
    "write_csv",
    "write_model",
]
