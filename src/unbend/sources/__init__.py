"""Read samples and true labels from folders, files, tables and named sets."""

from unbend.sources.named import NAMED_SETS, NamedSet, load_named
from unbend.sources.source import Broken, Source, open_source

__all__ = ["Broken", "NAMED_SETS", "NamedSet", "Source", "load_named", "open_source"]
