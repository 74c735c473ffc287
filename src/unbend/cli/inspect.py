"""``unbend inspect``."""

from __future__ import annotations

from pathlib import Path

import click

from unbend.cli import options

__all__ = ["command"]


@click.command("inspect", short_help="Find duplicates and poor images.")
@click.argument("input", metavar="FOLDER", type=click.Path())
@options.out_option("Directory of the page and the lists.", "inspection")
@click.option(
    "--encoder", default="auto", show_default=True, metavar="NAME|PATH|none",
    help="Its embeddings confirm near-duplicates; none compares perceptual hashes only.",
)  # fmt: skip
@click.option(
    "--workers", type=click.IntRange(min=1), help="Number of processes that decode images."
)
@click.option("--overwrite", is_flag=True, help="Replace an earlier inspection.")
@options.output_options
def command(
    input: str,
    out: Path,
    encoder: str,
    workers: int | None,
    overwrite: bool,
    quiet: bool,
    as_json: bool,
) -> None:
    """Find exact and near duplicates, and blurred, dark, flat and tiny images in FOLDER.

    Writes inspection.html, a page with pictures, and the lists duplicates.csv, quality.csv and, if
    some files cannot be read, broken.csv.

    \b
    Examples:
      unbend inspect photos/
      unbend cluster photos/ --drop-duplicates

    In Python: unbend.workflows.inspect(...).
    """
    from unbend.workflows.inspect import inspect

    with options.progress_for(quiet) as progress:
        result = inspect(
            input, out=out, encoder=encoder, workers=workers, overwrite=overwrite,
            progress=progress,
        )  # fmt: skip
    options.emit(result.to_dict(), result.summary(), as_json)
