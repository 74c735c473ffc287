"""Tables of any kind as samples: which columns are numbers, ids, labels or text."""

from unbend.tables.choice import Choice, NoNumbers, choose_columns, read_features, split_names
from unbend.tables.open import TABLE_SUFFIXES, is_table, open_table
from unbend.tables.table import Table, near_names

__all__ = [
    "Choice",
    "NoNumbers",
    "TABLE_SUFFIXES",
    "Table",
    "choose_columns",
    "is_table",
    "split_names",
    "near_names",
    "open_table",
    "read_features",
]
