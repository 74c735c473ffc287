"""``unbend predict``."""

from __future__ import annotations

from pathlib import Path

import click

from unbend.cli import options

__all__ = ["command"]


@click.command("predict", short_help="Label new samples with the model of a run.")
@click.argument("run", metavar="RUN", type=click.Path(path_type=Path))
@click.argument("input", metavar="INPUT", type=click.Path())
@options.out_option("What to write: .csv or .parquet, - for standard output.", "labels.csv")
@click.option(
    "--format", "kind", type=click.Choice(["csv", "parquet", "imagefolder"]),
    help="By default what -o ends in; imagefolder makes one folder of links per cluster.",
)  # fmt: skip
@click.option("--copy", is_flag=True, help="With imagefolder: copy images instead of linking.")
@click.option("--id", metavar="COLUMN", help="Column of ids; by default that of the run.")
@options.broken_options
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
@click.option("--workers", type=click.IntRange(min=1), help="Workers of --engine ray.")
@options.engine_options
@options.config_option
@options.output_options
def command(
    run: Path,
    input: str,
    out: Path,
    kind: str | None,
    copy: bool,
    id: str | None,
    max_broken: float,
    strict: bool,
    probabilities: bool,
    curated: bool,
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

    Rows keep their order. From a table the same columns are read as in the run. RUN may also be
    the directory of a saved model, and INPUT a single image or text file.

    \b
    Examples:
      unbend predict runs/photos new-photos/ -o labels.csv
      unbend predict runs/photos new-photos/ --format imagefolder -o sorted/
      unbend predict runs/mine new.npy -o labels.parquet --probabilities
      unbend predict runs/mine new.csv -o - | head
      unbend predict runs/mine shards/ -o labels/ --engine ray
      unbend predict runs/photos new-photos/ --curated

    In Python: unbend.workflows.predict(...).
    """
    if engine == "ray":
        options.refuse_for_ray(
            overwrite=overwrite,
            format=kind is not None,
            copy=copy,
            id=id is not None,
            strict=strict,
        )
        _on_ray(run, input, out, probabilities, encoder, device, workers, resume, quiet, as_json)
        return
    if resume or workers is not None:
        raise click.UsageError("--resume and --workers are for --engine ray; leave them out")
    from unbend.workflows.predict import predict

    to_stdout = str(out) == "-"
    if to_stdout and as_json:
        raise click.UsageError("-o - and --json both write to standard output; give one of them")
    with options.progress_for(quiet) as progress:
        result = predict(
            run, input, out=out, format=kind, copy=copy, id=id, max_broken=max_broken,
            strict=strict, probabilities=probabilities, curated=curated, overwrite=overwrite,
            encoder=encoder, device=device, progress=progress,
        )  # fmt: skip
    if not (to_stdout and quiet):
        options.emit(result.to_dict(), result.summary(), as_json, to_stderr=to_stdout)


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
