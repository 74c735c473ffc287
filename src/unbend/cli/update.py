"""``unbend update``."""

from __future__ import annotations

from pathlib import Path

import click

from unbend.cli import options

__all__ = ["command"]


@click.command("update", short_help="Take in samples that came later, with new clusters.")
@click.argument("run", metavar="RUN", type=click.Path(path_type=Path))
@click.argument("input", metavar="INPUT", type=click.Path())
@options.out_option("Table of their labels: .csv or .parquet.", "labels.csv")
@click.option(
    "--min-size", type=click.IntRange(min=8),
    help="Fewest samples of a new cluster; by default a quarter of the smallest one, 10 to 50.",
)  # fmt: skip
@click.option("--id", metavar="COLUMN", help="Column of ids; by default that of the run.")
@options.broken_options
@click.option("--overwrite", is_flag=True, help="Replace an existing table.")
@click.option(
    "--encoder", default="auto", show_default=True, metavar="NAME|PATH",
    help="Where the encoder of the run is, if it has moved.",
)  # fmt: skip
@click.option(
    "--device", default="auto", show_default=True, help="Device of the encoder, as in cluster."
)
@options.config_option
@options.output_options
def command(
    run: Path,
    input: str,
    out: Path,
    min_size: int | None,
    id: str | None,
    max_broken: float,
    strict: bool,
    overwrite: bool,
    encoder: str,
    device: str,
    quiet: bool,
    as_json: bool,
) -> None:
    """Label samples that came after RUN, and look for new clusters among those that fit nowhere.

    What fits gets its cluster. The rest waits, over several updates, with the label -1; where
    enough of it lies close together it becomes a new cluster of the model of RUN, which predict
    knows from then on. Nothing is trained and no old label moves. RUN/updates.csv is the history.

    \b
    Examples:
      unbend update runs/photos photos-of-may/ -o may.csv
      unbend update runs/mine new.npy --min-size 20

    In Python: unbend.workflows.update(...), or MLC.update.
    """
    from unbend.workflows.update import update

    with options.progress_for(quiet) as progress:
        result = update(
            run, input, out=out, min_size=min_size, overwrite=overwrite, id=id,
            max_broken=max_broken, strict=strict, encoder=encoder, device=device,
            progress=progress,
        )  # fmt: skip
    options.emit(result.to_dict(), result.summary(), as_json)
