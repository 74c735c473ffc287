"""The function behind ``unbend report``."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import torch

from unbend.explore.keep import curated_labels
from unbend.report import write_report
from unbend.runs import check_run, record_file, run_lock

__all__ = ["report"]

# Errors from files that were changed together with their hashes.
_DAMAGE = (
    LookupError, TypeError, AttributeError, ArithmeticError, csv.Error, RecursionError,
    np.linalg.LinAlgError,
    torch.linalg.LinAlgError,  # type: ignore[attr-defined]
)  # fmt: skip


CURATED_REPORT = "curated-report.html"


def report(run: str | Path, *, curated: bool = False) -> Path:
    """Write ``report.html`` of a finished run again and return its path.

    With ``curated`` the clusters are those corrected in ``unbend explore``, and the file is
    ``curated-report.html``.
    """
    run = Path(run)
    check_run(run)
    if curated:
        return _curated(run)
    with run_lock(run):
        try:
            page = write_report(run)
        except _DAMAGE as error:
            reason = " ".join(f"{type(error).__name__}: {error}".split())[:200]
            raise ValueError(
                f"the files of {str(run)!r} are not what a run writes ({reason}); cluster again"
            ) from error
        record_file(run, page.name)
    return page


def _curated(run: Path) -> Path:
    """The places of clusters on the page have no gaps, their numbers have; noise comes last."""
    _, curation = curated_labels(run)
    labels = curation.labels()
    groups = sorted(set(labels.tolist()), key=lambda g: (g < 0, g))
    place = np.zeros(max(groups) + 2, dtype=np.int64)
    place[groups] = np.arange(len(groups))  # noise, -1, is the last place
    # The tree, the spectrum and the choice of k belong to the clusters before.
    return write_report(
        run,
        out=run / CURATED_REPORT,
        labels=place[labels],
        cluster_names=[curation.name(g) for g in groups],
        cluster_numbers=groups,
        merge_tree=None,
        eigenvalues=None,
        selection=None,
        truth=None,
    )
