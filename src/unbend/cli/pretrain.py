"""``unbend pretrain``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from unbend.cli import options

__all__ = ["command"]


@click.command("pretrain", short_help="Train an encoder without labels.")
@click.argument("input", metavar="INPUT", type=click.Path())
@click.option(
    "--method", default="tcr", show_default=True,
    type=click.Choice(options.pretraining_methods()),
    help="Self-supervised method.",
)  # fmt: skip
@options.out_option("Checkpoint directory to write.", "pretrained")
@click.option(
    "--epochs", type=click.IntRange(min=1), help="Number of epochs; by default that of the preset."
)
@click.option(
    "--labels", metavar="COLUMN|FILE|folders",
    help="True labels, only to score progress: a column, a file, or 'folders' for the sub-folders.",
)  # fmt: skip
@click.option("--image-size", type=click.IntRange(min=4), help="Resize images to this side length.")
@click.option(
    "--preset",
    default="auto",
    show_default=True,
    help="auto, images, vectors or paper.",
)
@options.seed_option
@options.device_options
@options.config_option
@options.set_option
@click.option(
    "--workers", type=click.IntRange(min=1), help="Number of processes that decode images."
)
@click.option("--overwrite", is_flag=True, help="Replace an earlier checkpoint.")
@click.option("--resume", is_flag=True, help="Continue where an earlier call stopped.")
@options.output_options
def command(input: str, quiet: bool, as_json: bool, out: Path, **given: Any) -> None:
    """Train an encoder on INPUT without labels; use it with cluster --encoder.

    \b
    Examples:
      unbend pretrain photos/ --method moco -o photos-encoder
      unbend cluster photos/ --encoder photos-encoder

    In Python: unbend.workflows.pretrain(...).
    """
    from unbend.workflows.pretrain import pretrain

    given["settings"] = options.collect_settings(given["settings"])
    try:
        with options.progress_for(quiet) as progress:
            result = pretrain(input, out=out, progress=progress, **given)
    except KeyboardInterrupt:
        again = "the same command and --resume"
        raise options.Interrupted(f"interrupted; continue with {again}") from None
    options.emit(result.to_dict(), result.summary(), as_json)
