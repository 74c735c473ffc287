"""``unbend embed``."""

from __future__ import annotations

from pathlib import Path

import click

from unbend.cli import options

__all__ = ["command"]


@click.command("embed", short_help="Turn images into vectors.")
@click.argument("input", metavar="INPUT", type=click.Path())
@options.encoder_option("lite2")
@options.out_option("Array to write, .npy.", "embeddings.npy")
@click.option("--overwrite", is_flag=True, help="Replace an existing array.")
@click.option("--device", default="auto", show_default=True, help="auto, cpu, cuda, cuda:1 or mps.")
@click.option(
    "--workers", type=click.IntRange(min=1), help="Number of processes that decode images."
)
@options.config_option
@options.output_options
def command(
    input: str,
    encoder: str,
    out: Path,
    overwrite: bool,
    device: str,
    workers: int | None,
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

    In Python: unbend.workflows.embed(...).
    """
    from unbend.workflows.embed import embed

    with options.progress_for(quiet) as progress:
        result = embed(
            input, encoder=encoder, out=out, overwrite=overwrite, device=device, workers=workers,
            progress=progress,
        )  # fmt: skip
    options.emit(result.to_dict(), result.summary(), as_json)
