"""A run on disk: whole files or none, models without pickle."""

from unbend.runs.directory import RunDirectory
from unbend.runs.files import atomic_directory, atomic_write
from unbend.runs.model import read_model, write_model

__all__ = ["RunDirectory", "atomic_directory", "atomic_write", "read_model", "write_model"]
