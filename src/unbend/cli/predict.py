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
@click.option("--overwrite", is_flag=True, help="Replace an existing table.")
@click.option(
    "--encoder", default="auto", show_default=True, metavar="NAME|PATH",
    help="Where the encoder of the run is, if it has moved.",
)  # fmt: skip
@click.option(
    "--device", default="auto", show_default=True, help="Device of the encoder, as in cluster."
)
@click.option("--workers", type=click.IntRange(min=1), help="Workers of --engine ray.")
@options.engine_options
@options.config_option
@options.output_options
def command(
    run: Path,
    input: str,
    out: Path,
    probabilities: bool,
    overwrite: bool,
    encoder: str,
    device: str,
    workers: int | None,
    engine: str,
    resume: bool,
    quiet: bool,
    as_json: bool,
) -> None:
    """Label new samples with the model of RUN, in chunks: memory does not grow with INPUT.

    Rows keep their order. RUN may also be the directory of a saved model.

    \b
    Examples:
      unbend predict runs/photos new-photos/ -o labels.csv
      unbend predict runs/mine new.npy -o labels.parquet --probabilities
      unbend predict runs/mine shards/ -o labels/ --engine ray

    In Python: unbend.workflows.predict(...).
    """
    if engine == "ray":
        options.refuse_for_ray(overwrite=overwrite)
        _on_ray(run, input, out, probabilities, encoder, device, workers, resume, quiet, as_json)
        return
    if resume or workers is not None:
        raise click.UsageError("--resume and --workers are for --engine ray; leave them out")
    from unbend.workflows.predict import predict

    with options.progress_for(quiet) as progress:
        result = predict(
            run, input, out=out, probabilities=probabilities, overwrite=overwrite,
            encoder=encoder, device=device, progress=progress,
        )  # fmt: skip
    options.emit(result.to_dict(), result.summary(), as_json)


def _on_ray(
    run: Path,
    input: str,
    out: Path,
    probabilities: bool,
    encoder: str,
    device: str,
    workers: int | None,
    resume: bool,
    quiet: bool,
    as_json: bool,
) -> None:
    from unbend.workflows.ray_engine import run_on_ray
    from unbend.workflows.shards import Job

    job = Job(
        "predict", options.ray_out(out, "labels.csv"), str(run.resolve()), encoder, device,
        probabilities,
    )  # fmt: skip
    with options.progress_for(quiet) as progress:
        result = run_on_ray(job, input, workers=workers, resume=resume, progress=progress)
    options.emit(result.to_dict(), result.summary(), as_json)
