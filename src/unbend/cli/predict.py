"""``unbend predict``."""

from __future__ import annotations

from pathlib import Path

import click

from unbend.cli import options

__all__ = ["command"]


@click.command("predict", short_help="Label new samples with the model of a run.")
@click.argument("run", metavar="RUN", type=click.Path(path_type=Path))
@click.argument("input", metavar="INPUT", type=click.Path())
@options.out_option("Table to write, .csv or .parquet.", "labels.csv")
@click.option("--probabilities", is_flag=True, help="Add a column per cluster: p0, p1, ...")
@click.option("--curated", is_flag=True, help="The clusters as corrected in unbend explore.")
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
    probabilities: bool,
    curated: bool,
    overwrite: bool,
    encoder: str,
    device: str,
    quiet: bool,
    as_json: bool,
) -> None:
    """Label new samples with the model of RUN, in chunks: memory does not grow with INPUT.

    Rows keep their order. RUN may also be the directory of a saved model.

    \b
    Examples:
      unbend predict runs/photos new-photos/ -o labels.csv
      unbend predict runs/mine new.npy -o labels.parquet --probabilities
      unbend predict runs/photos new-photos/ --curated

    In Python: unbend.workflows.predict(...).
    """
    from unbend.workflows.predict import predict

    with options.progress_for(quiet) as progress:
        result = predict(
            run, input, out=out, probabilities=probabilities, curated=curated, overwrite=overwrite,
            encoder=encoder, device=device, progress=progress,
        )  # fmt: skip
    options.emit(result.to_dict(), result.summary(), as_json)
