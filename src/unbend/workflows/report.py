"""The function behind ``unbend report``."""

from __future__ import annotations

from pathlib import Path

from unbend.report import write_report
from unbend.runs import check_run, record_file, run_lock

__all__ = ["report"]


def report(run: str | Path) -> Path:
    """Write ``report.html`` of a finished run again and return its path."""
    run = Path(run)
    check_run(run)
    with run_lock(run):
        page = write_report(run)
        record_file(run, page.name)
    return page
