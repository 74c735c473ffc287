"""Write ``report.html`` of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from unbend.disk import atomic_write
from unbend.report.render import render
from unbend.report.run_facts import facts_of_run
from unbend.report.summarise import summarise

__all__ = ["write_report"]


def write_report(run_dir: str | Path, *, out: str | Path | None = None, **given: Any) -> Path:
    """Write the report of a run and return its path.

    Parameters
    ----------
    run_dir : path
        A directory written by ``unbend cluster``. Only the labels are required; sections whose
        files are missing are left out.
    out : path, optional
        Where to write instead of ``report.html`` in the run directory.
    **given
        Fields of :class:`~unbend.report.Facts` that the run does not hold, such as ``y`` and
        ``classes`` for the table of true labels.
    """
    path = Path(run_dir) / "report.html" if out is None else Path(out)
    atomic_write(path, render(summarise(facts_of_run(run_dir, **given))))
    return path
