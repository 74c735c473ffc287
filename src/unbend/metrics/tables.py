"""Tables of results: printed, and written as markdown and csv."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from unbend.disk import atomic_write
from unbend.disk.provenance import command_line, kept_from, origin
from unbend.metrics import Scores

__all__ = ["EFFECT", "SCORE_COLUMNS", "Table", "effect", "file_name", "mean_sd", "score_cells"]

SCORE_COLUMNS = ("ACC", "NMI", "AMI", "ARI")
# A note for tables that use :func:`effect`.
EFFECT = (
    "± is the standard error of the difference in ACC over seeds; an effect shows above twice that."
)


@dataclass
class Table:
    """Rows of text under named columns, with a caption that states n, split and seeds."""

    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]] = field(default_factory=list)
    notes: Sequence[str] = ()  # what a reader must know to interpret it

    def print(self) -> None:
        """Print to standard output."""
        from rich import box
        from rich.console import Console
        from rich.table import Table as RichTable

        table = RichTable(title=self.caption, box=box.SIMPLE_HEAD, title_justify="left")
        for k, name in enumerate(self.columns):
            table.add_column(name, justify="left" if k == 0 else "right", no_wrap=True)
        for row in self.rows:
            table.add_row(*row)
        console = Console()
        # Outside a terminal nothing wraps, so use a width at which no column is cut.
        console = console if console.is_terminal else Console(width=160)
        console.print(table)
        for note in self.notes:
            console.print(f"  {note}", markup=False, highlight=False)

    def markdown(self) -> str:
        """As a markdown table."""
        lines = [self.columns, ["---"] * len(self.columns), *self.rows]
        # An unescaped bar, as in |cos|, would end the cell.
        rows = [" | ".join(cell.replace("|", "\\|") for cell in cells) for cells in lines]
        body = "\n".join(f"| {row} |" for row in rows)
        notes = "".join(f"\n{note}\n" for note in self.notes)
        return f"{self.caption}\n\n{body}\n{notes}"

    def saved(self, out: Path | None, name: str) -> Table:
        """Write the table to the directory ``out``, if given, and return it."""
        if out is not None:
            out = Path(out)
            out.mkdir(parents=True, exist_ok=True)
            self.write(out / name)
        return self

    def write(self, path: Path) -> None:
        """Write ``path`` as .md and .csv, and the command and commit as .json."""
        text = io.StringIO(newline="")
        csv.writer(text).writerows([self.columns, *self.rows])
        atomic_write(path.with_suffix(".csv"), text.getvalue())
        atomic_write(path.with_suffix(".md"), self.markdown())
        made = {"command": command_line(), "commit": origin(), "kept_from": kept_from()}
        atomic_write(path.with_suffix(".json"), json.dumps(made, indent=1) + "\n")


def file_name(experiment: str, *given: str | None) -> str:
    """Name of a table's files; it includes the data and encoder if they are not the default ones.

    >>> file_name("table2", None, None), file_name("table2", "cifar10:test", "encoders/mine")
    ('table2', 'table2-cifar10-test-mine')
    """
    parts = [Path(name).stem for name in given if name]
    return "-".join([experiment, *(re.sub(r"\W+", "-", part).strip("-") for part in parts)])


def mean_sd(values: Sequence[float], digits: int = 3) -> str:
    """``mean ± sd`` over seeds (sample deviation), or the value itself if there is only one.

    >>> mean_sd([0.9, 0.92]), mean_sd([0.5])
    ('0.910 ± 0.014', '0.500')
    """
    if len(values) == 1:
        return f"{values[0]:.{digits}f}"
    return f"{np.mean(values):.{digits}f} ± {np.std(values, ddof=1):.{digits}f}"


def effect(claim: str, more: Sequence[float], less: Sequence[float]) -> str:
    """Whether numbers support a claim: a sentence for the notes of a table.

    ``more`` and ``less`` are in the order of the seeds. The claim holds if the mean of
    ``more - less`` exceeds twice its standard error.

    >>> effect("A above B", [0.9, 0.8, 0.9], [0.5, 0.5, 0.5])
    'A above B: shows (+0.367 ± 0.033, 3 of 3 seeds).'
    >>> effect("A above B", [0.5, 0.6], [0.6, 0.5])
    'A above B: does not show (+0.000 ± 0.100, 1 of 2 seeds).'
    """
    gaps = np.subtract(more, less)
    mean, above = gaps.mean(), int((gaps > 0).sum())
    if len(gaps) == 1:
        return f"{claim}: {mean:+.3f}, one seed."
    error = gaps.std(ddof=1) / np.sqrt(len(gaps))
    verdict = "the reverse shows" if mean < -2 * error else "does not show"
    verdict = "shows" if mean > 2 * error else verdict
    return f"{claim}: {verdict} ({mean:+.3f} ± {error:.3f}, {above} of {len(gaps)} seeds)."


def score_cells(scores: Sequence[Scores]) -> list[str]:
    """The four score columns over seeds."""
    return [mean_sd([getattr(s, name.lower()) for s in scores]) for name in SCORE_COLUMNS]
