"""The function behind ``unbend explore``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unbend.explore.journal import JOURNAL
from unbend.explore.serve import explore as serve
from unbend.workflows.result import Result

__all__ = ["ExploreResult", "explore"]


@dataclass(frozen=True)
class ExploreResult(Result):
    """The result of a session."""

    journal: Path
    n_acts: int

    def summary(self) -> str:
        """One line of text."""
        if not self.n_acts:
            return "stopped; no corrections"
        plural = "s" if self.n_acts != 1 else ""
        return f"stopped; {self.n_acts} correction{plural} in {self.journal}"


def explore(run: str | Path, **options: Any) -> ExploreResult:
    """Serve the page of a run until it is stopped.

    Takes the options of :func:`unbend.explore.explore`.
    """
    n_acts = serve(run, **options)
    return ExploreResult(Path(run) / JOURNAL, n_acts)
