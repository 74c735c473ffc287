"""Read samples and true labels from folders, files, tables and named sets."""

from unbend.sources.named import NAMED_SETS, NamedSet, load_named
from unbend.sources.open import holds_texts, open_source
from unbend.sources.source import Broken, Source

__all__ = ["Broken", "NAMED_SETS", "NamedSet", "Source", "holds_texts", "load_named", "open_source"]
