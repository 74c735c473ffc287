"""Named data sets: one file per format, one registry."""

from unbend.data.named.registry import NAMED_SETS, load_named
from unbend.data.named.spec import NamedSet

__all__ = ["NAMED_SETS", "NamedSet", "load_named"]
