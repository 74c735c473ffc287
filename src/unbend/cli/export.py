"""``unbend export``."""

from __future__ import annotations

from pathlib import Path

import click

from unbend.cli import options

__all__ = ["command"]


@click.command("export", short_help="Export the labels or the model of a run for other programs.")
@click.argument("run", metavar="RUN", type=click.Path(path_type=Path))
@click.option(
    "--format", "kind", required=True,
    type=click.Choice(["csv", "parquet", "imagefolder", "coco", "fiftyone", "onnx"]),
    help="csv, parquet: the table; imagefolder: one folder of links per cluster; coco, fiftyone: "
    "labels.json and links; onnx: the whole model as one graph.",
)  # fmt: skip
@options.out_option("Where to write; by default next to the run.")
@click.option(
    "--images", type=click.Path(path_type=Path), metavar="FOLDER",
    help="Folder of the images, if they have moved since they were clustered.",
)  # fmt: skip
@click.option("--copy", is_flag=True, help="Copy images instead of linking to them.")
@click.option("--curated", is_flag=True, help="The clusters as corrected in unbend explore.")
@click.option(
    "--image-size", nargs=2, type=click.IntRange(min=4), metavar="HEIGHT WIDTH",
    help="onnx, with an encoder: size of the images that the graph takes. [default: the encoder's]",
)  # fmt: skip
@options.json_option
def command(
    run: Path,
    kind: str,
    out: Path | None,
    images: Path | None,
    copy: bool,
    curated: bool,
    image_size: tuple[int, int] | None,
    as_json: bool,
) -> None:
    """Export the labels or the model of RUN for other programs.

    \b
    Examples:
      unbend export runs/photos --format imagefolder -o sorted/
      unbend export runs/photos --format fiftyone -o photos-fiftyone
      unbend export runs/mine --format parquet -o labels.parquet
      unbend export runs/mine --format onnx -o model.onnx
      unbend export runs/photos --curated --format imagefolder -o sorted/

    In Python: unbend.workflows.export(...).
    """
    from unbend.workflows.export import export

    done = export(
        run, kind, out=out, images=images, copy=copy, curated=curated, image_size=image_size
    )
    if isinstance(done, Path):
        options.emit({"format": kind, "out": str(done)}, f"written to {done}", as_json)
    else:
        options.emit({"format": kind, **done.to_dict()}, done.summary(), as_json)
