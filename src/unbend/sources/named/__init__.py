"""Named data sets: one file per format, one registry."""

from unbend.sources.named.registry import NAMED_SETS, load_named
from unbend.sources.named.spec import NamedSet

__all__ = ["NAMED_SETS", "NamedSet", "load_named"]
