"""Explore a run: look at its clusters, correct them on a local page, and keep the result.

``explore(run)`` serves the page. Every correction is a line of ``curation.jsonl`` in the run;
:func:`read_curation` replays them on the labels of the run, which never change.
"""

from unbend.explore.acts import NOISE, read_act
from unbend.explore.curation import Curation
from unbend.explore.journal import JOURNAL, Journal, read_curation
from unbend.explore.keep import curated_labels, write_curated
from unbend.explore.serve import explore

__all__ = [
    "JOURNAL",
    "NOISE",
    "Curation",
    "Journal",
    "curated_labels",
    "explore",
    "read_act",
    "read_curation",
    "write_curated",
]
