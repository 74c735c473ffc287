"""The function behind ``unbend report``."""

from __future__ import annotations

import csv
from pathlib import Path

from unbend.report import write_report
from unbend.runs import check_run, record_file, run_lock

__all__ = ["report"]

# What files that somebody changed, with their hashes, can lead to.
_DAMAGE = (LookupError, TypeError, AttributeError, ArithmeticError, csv.Error, RecursionError)


def report(run: str | Path) -> Path:
    """Write ``report.html`` of a finished run again and return its path."""
    run = Path(run)
    check_run(run)
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
