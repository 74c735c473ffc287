"""``unbend embed``."""

from __future__ import annotations

from pathlib import Path

import click

from unbend.cli import options

__all__ = ["command"]


@click.command("embed", short_help="Turn images into vectors.")
@click.argument("input", metavar="INPUT", type=click.Path())
@click.option(
    "--encoder", default="lite2", show_default=True, metavar="NAME|PATH",
    help="Pre-trained encoder: lite0, lite2, hf:NAME or a checkpoint. NAME+mirror takes the mean "
    "with the mirror image, as cluster does by default for up to 10,000 images.",
)  # fmt: skip
@options.out_option("Array to write, .npy.", "embeddings.npy")
@click.option("--overwrite", is_flag=True, help="Replace an existing array.")
@click.option("--device", default="auto", show_default=True, help="auto, cpu, cuda, cuda:1 or mps.")
@click.option(
    "--workers", type=click.IntRange(min=1),
    help="Number of processes that decode images, or of workers of --engine ray.",
)  # fmt: skip
@options.engine_options
@options.config_option
@options.output_options
def command(
    input: str,
    encoder: str,
    out: Path,
    overwrite: bool,
    device: str,
    workers: int | None,
    engine: str,
    resume: bool,
    quiet: bool,
    as_json: bool,
) -> None:
    """Turn images into vectors with a pre-trained encoder: one float32 row per image.

    A csv file next to the array names the rows. Embeddings are cached by content, so images seen
    before are not encoded again.

    \b
    Examples:
      unbend embed photos/ -o photos.npy
      unbend embed photos/ --encoder hf:facebook/dinov2-small -o photos.npy
      unbend embed tars/ -o vectors/ --engine ray

    In Python: unbend.workflows.embed(...).
    """
    if engine == "ray":
        options.refuse_for_ray(overwrite=overwrite)
        _on_ray(input, encoder, out, device, workers, resume, quiet, as_json)
        return
    if resume:
        raise click.UsageError("--resume is for --engine ray; leave it out")
    from unbend.workflows.embed import embed

    with options.progress_for(quiet) as progress:
        result = embed(
            input, encoder=encoder, out=out, overwrite=overwrite, device=device, workers=workers,
            progress=progress,
        )  # fmt: skip
    options.emit(result.to_dict(), result.summary(), as_json)


def _on_ray(
    input: str,
    encoder: str,
    out: Path,
    device: str,
    workers: int | None,
    resume: bool,
    quiet: bool,
    as_json: bool,
) -> None:
    from unbend.workflows.ray_engine import run_on_ray
    from unbend.workflows.shards import Job

    if Path(encoder).exists():  # workers start in other folders
        encoder = str(Path(encoder).resolve())
    job = Job("embed", options.ray_out(out, "embeddings.npy"), encoder=encoder, device=device)
    with options.progress_for(quiet) as progress:
        result = run_on_ray(job, input, workers=workers, resume=resume, progress=progress)
    options.emit(result.to_dict(), result.summary(), as_json)
