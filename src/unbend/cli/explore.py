"""``unbend explore``."""

from __future__ import annotations

from pathlib import Path

import click

from unbend.cli import options

__all__ = ["command"]


@click.command("explore", short_help="Look at the clusters of a run and correct them in a browser.")
@click.argument("run", metavar="RUN", type=click.Path(path_type=Path))
@click.option(
    "--port", type=click.IntRange(0, 65535), default=None,
    help="Port on this machine; by default 8421, or any free one if it is taken.",
)  # fmt: skip
@click.option("--read-only", is_flag=True, help="Show everything, change nothing.")
@click.option("--no-browser", is_flag=True, help="Print the address; open no browser.")
@click.option(
    "--images", type=click.Path(path_type=Path), metavar="FOLDER",
    help="Folder of the images, if they have moved since they were clustered.",
)  # fmt: skip
@click.option(
    "--columns", type=click.Path(path_type=Path), metavar="TABLE",
    help="A .csv or .parquet file with a row per sample: columns to colour by.",
)  # fmt: skip
@click.option("--text", metavar="COLUMN", help="The column of --columns to show as text.")
@options.output_options
def command(
    run: Path,
    port: int | None,
    read_only: bool,
    no_browser: bool,
    images: Path | None,
    columns: Path | None,
    text: str | None,
    quiet: bool,
    as_json: bool,
) -> None:
    """Look at the clusters of RUN on a local page: merge, split, rename, move, undo.

    Only this machine can reach the page. Every correction is saved at once in RUN/curation.jsonl;
    the labels of the run never change. Ctrl-C stops the server.

    \b
    Examples:
      unbend explore runs/photos
      unbend explore runs/reviews --columns reviews.csv --text body
      unbend export runs/photos --curated --format imagefolder -o sorted/

    In Python: unbend.workflows.explore(...), or model.explore(X).
    """
    from unbend.workflows.explore import explore

    with options.progress_for(quiet) as progress:
        result = explore(
            run, port=port, read_only=read_only, open_browser=not no_browser, images=images,
            columns=columns, text=text, progress=progress,
        )  # fmt: skip
    options.emit(result.to_dict(), result.summary(), as_json)
