"""``unbend report``."""

from __future__ import annotations

from pathlib import Path

import click

from unbend.cli import options

__all__ = ["command"]


@click.command("report", short_help="Write the report of a run again.")
@click.argument("run", metavar="RUN", type=click.Path(path_type=Path))
@click.option("--curated", is_flag=True, help="The clusters as corrected in unbend explore.")
@options.json_option
def command(run: Path, curated: bool, as_json: bool) -> None:
    """Write report.html of a finished run again: one file to view and share.

    \b
    Examples:
      unbend report runs/photos
      unbend report runs/photos --curated

    In Python: unbend.workflows.report(...).
    """
    from unbend.workflows.report import report

    path = report(run, curated=curated)
    options.emit({"report": str(path)}, f"report: {path}", as_json)
