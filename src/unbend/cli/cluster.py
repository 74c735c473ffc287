"""``unbend cluster``."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Any

import click

from unbend.cli import options

__all__ = ["command"]


@click.command("cluster", short_help="Cluster images, tables or texts: labels, model, report.")
@click.argument("input", metavar="INPUT", type=click.Path())
@click.option(
    "-k", "--n-clusters", default="auto", show_default=True, metavar="K|auto",
    callback=options.whole_or("auto"), help="Number of clusters.",
)  # fmt: skip
@click.option(
    "--min-clusters", type=click.IntRange(min=2), help="Fewest clusters that -k auto considers."
)
@click.option(
    "--max-clusters", type=click.IntRange(min=3),
    help="Most clusters that -k auto considers; by default 60, or a tenth of the samples, but at "
    "least 3 and twice --min-clusters.",
)  # fmt: skip
@click.option(
    "--noise", is_flag=True, help="Give outliers the label -1 instead of their nearest cluster."
)
@options.out_option("Run directory; by default runs/NAME.")
@click.option(
    "--labels", metavar="COLUMN|FILE|folders",
    help="True labels, for scoring only: a column, a file, or 'folders' for the sub-folders.",
)  # fmt: skip
@options.table_options
@options.encoder_option()
@click.option("--image-size", type=click.IntRange(min=4), help="Resize images to this side length.")
@click.option(
    "--preset",
    default="auto",
    show_default=True,
    help="auto, images, vectors or paper.",
)
@options.budget_options
@options.seed_option
@options.device_options
@options.config_option
@options.set_option
@click.option(
    "--train-on", default="auto", show_default=True, metavar="N|all|auto",
    callback=options.whole_or("all", "auto"),
    help="Number of samples to train on; the trained model labels the rest. auto: all up to "
    "100,000, else 50,000 drawn at random.",
)  # fmt: skip
@click.option(
    "--workers", type=click.IntRange(min=1), help="Number of processes that decode images."
)
@options.broken_options
@click.option(
    "--drop-duplicates", is_flag=True,
    help="Train on one of each group of duplicates; they are listed in duplicates.csv.",
)  # fmt: skip
@click.option("--compare", is_flag=True, help="Also score k-means and spectral clustering.")
@click.option("--report/--no-report", default=True, help="Write report.html.")
@click.option("--overwrite", is_flag=True, help="Replace an earlier run.")
@click.option("--resume", is_flag=True, help="Continue an unfinished run where it stopped.")
@options.output_options
def command(input: str, out: Path | None, quiet: bool, as_json: bool, **given: Any) -> None:
    """Cluster INPUT and write labels, model and report to a run directory.

    INPUT is a folder of images or of .txt and .md files, a table (.csv, .tsv, .parquet, .feather)
    of numbers, vectors, texts or image paths, an array (.npy, .npz, .safetensors), or a named set
    such as digits or cifar10:test.

    \b
    Examples:
      unbend cluster photos/
      unbend cluster photos/ --min-clusters 5 --max-clusters 30 --noise
      unbend cluster photos/ -k 12 --labels folders -o runs/photos
      unbend cluster digits -k 10 --compare
      unbend cluster customers.csv --id customer --exclude 'date*'
      unbend cluster reviews.csv --text body
      unbend cluster embeddings.npy --config mine.toml --set stage2.eta=0.1
      unbend cluster embeddings.npy -o runs/mine --resume

    In Python: unbend.workflows.cluster(...).
    """
    options.announce(f"reading {input}", quiet)  # importing torch takes seconds
    from unbend.progress import whole_run
    from unbend.workflows.cluster import cluster, default_out

    given["budget"] = options.budget_of(given)
    given["settings"] = options.collect_settings(given["settings"])
    out = out or default_out(input)
    try:
        with options.progress_for(quiet) as progress:
            result = cluster(input, out=out, progress=whole_run(progress), **given)
    except KeyboardInterrupt:
        raise options.Interrupted(_how_to_go_on(out)) from None
    if result.table is not None and not as_json:
        result.table.print()
    options.emit(result.to_dict(), result.summary(), as_json)


def _how_to_go_on(out: Path) -> str:
    if not (out / "checkpoints").is_dir():
        return "interrupted before anything was written"
    words = [word for word in sys.argv[1:] if word not in ("--overwrite", "--resume")]
    again = shlex.join(["unbend", *words, "--resume"])
    return f"interrupted; the work so far is saved, continue with: {again}"
