"""What ``unbend report`` does, as one function."""

from __future__ import annotations

from pathlib import Path

from unbend.report import write_report

__all__ = ["report"]


def report(run: str | Path) -> Path:
    """Write ``report.html`` of a finished run anew and return its path."""
    run = Path(run)
    if not run.is_dir():
        raise ValueError(f"no run {str(run)!r}; make one with: unbend cluster INPUT -o {run}")
    if (run / "checkpoints").is_dir():
        raise ValueError(f"the run {str(run)!r} is unfinished; finish it with cluster --resume")
    return write_report(run)
