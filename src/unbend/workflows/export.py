"""The function behind ``unbend export``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from unbend.deploy import OnnxExport, export_onnx
from unbend.disk import atomic_directory, atomic_write, to_json
from unbend.explore.keep import curated_labels, curated_rows
from unbend.pixels.decode import open_image
from unbend.pixels.folders import path_inside
from unbend.runs import LabelRows, check_run, read_json, read_labels
from unbend.runs.labels import labels_file, needs_mark
from unbend.sources.columns import path_column, read_paths
from unbend.tables import TABLE_SUFFIXES, open_table
from unbend.workflows.image_folders import put_image, write_folders
from unbend.workflows.outputs import check_folder
from unbend.workflows.predict import load_run

__all__ = ["FORMATS", "export"]

_TABLES = ("csv", "parquet")
FORMATS = (*_TABLES, "imagefolder", "coco", "fiftyone", "onnx")


def export(
    run: str | Path,
    format: str,
    *,
    out: str | Path | None = None,
    images: str | Path | None = None,
    copy: bool = False,
    curated: bool = False,
    image_size: tuple[int, int] | None = None,
) -> Path | OnnxExport:
    """Export the labels or the model of a run for other programs.

    Parameters
    ----------
    run : path
        A finished run.
    format : {"csv", "parquet", "imagefolder", "coco", "fiftyone", "onnx"}
        ``"csv"`` and ``"parquet"``: the table of labels. ``"imagefolder"``: one folder per
        cluster with a link to (or a copy of) each image. ``"coco"``: ``data/`` with links and
        ``labels.json``, in which every image has one annotation, a box around all of it.
        ``"fiftyone"``: ``data/`` with links to the images and ``labels.json``, which FiftyOne
        imports as ``FiftyOneImageClassificationDataset``. ``"onnx"``: the model, see
        :func:`unbend.deploy.export_onnx`, whose result is returned.
    out : path, optional
        By default ``RUN-FORMAT`` next to the run. Must not exist yet.
    images : path, optional
        Folder that the names of the samples are relative to; by default the input of the run.
    copy : bool
        Copy images instead of linking to them.
    curated : bool
        Export the clusters as corrected in ``unbend explore``, with their names.
    image_size : (int, int), optional
        For ``"onnx"`` and a model with an encoder: height and width of the images.
    """
    run = Path(run)
    out = _check_call(run, format, out, images, copy, curated, image_size)
    if format == "onnx":
        return export_onnx(load_run(run), out, image_size=image_size)
    check_run(run, "labels.parquet", "labels.csv", "config.json")
    rows = curated_rows(*curated_labels(run)) if curated else read_labels(run / "labels.parquet")
    if format in _TABLES:
        _write_table(rows, out)
        return out
    paths = _paths(_with_files(rows, run), _root(run, images))
    with atomic_directory(out) as folder:
        if format == "imagefolder":
            names = _names(rows) if rows.names is not None else None
            write_folders(rows.labels.tolist(), paths, folder, copy, names)
        elif format == "coco":
            _write_coco(rows, paths, folder, copy)
        else:
            _write_fiftyone(rows, paths, folder, copy)
    return out


def _check_call(
    run: Path,
    format: str,
    out: str | Path | None,
    images: str | Path | None,
    copy: bool,
    curated: bool,
    image_size: tuple[int, int] | None,
) -> Path:
    """Raise on options that do not fit the format; return where to write."""
    if format not in FORMATS:
        raise ValueError(f"`format` must be one of {', '.join(FORMATS)}, got {format!r}")
    if format in (*_TABLES, "onnx") and (copy or images is not None):
        raise ValueError(f"{format} holds no images; leave --copy and --images out")
    if format == "onnx" and curated:
        raise ValueError("onnx holds the model's own clusters; leave --curated out")
    if format != "onnx" and image_size is not None:
        raise ValueError(f"--image-size is for onnx, not for {format}; leave it out")
    ending = f".{format}" if format in (*_TABLES, "onnx") else ""
    name = f"{run.name}{ending}" if format == "onnx" else f"{run.name}-{format}{ending}"
    out = Path(out) if out is not None else run.with_name(name)
    if out.exists():
        raise ValueError(f"{str(out)!r} already exists; name another with -o")
    if ending and out.suffix != ending:
        raise ValueError(f"-o must end in {ending}, got {str(out)!r}; rename it")
    if out.parent.is_dir():
        check_folder(out)
    return out


def _write_table(rows: LabelRows, out: Path) -> None:
    out.parent.mkdir(parents=True, exist_ok=True)
    mark = needs_mark(rows.samples) or needs_mark(rows.names or ())
    with labels_file(out, mark=out.suffix == ".csv" and mark) as write:
        write(rows)


def _with_files(rows: LabelRows, run: Path) -> LabelRows:
    """The rows, with the image files of a list as names instead of the chosen ids."""
    id = read_json(run / "config.json").get("id")
    path = Path(_input(run)) if isinstance(id, str) else Path()
    if not isinstance(id, str) or not path.is_file():
        return rows
    table = open_table(path)
    column = path_column(table)
    if column is None or id not in table.columns:
        return rows
    files = dict(zip(map(str, table.values(id)), read_paths(table, column), strict=True))
    return replace(rows, samples=[files.get(name, name) for name in rows.samples])


def _root(run: Path, images: str | Path | None) -> Path:
    """The folder of the images."""
    root = Path(images) if images is not None else Path(_input(run))
    if root.is_file() and root.suffix.lower() in TABLE_SUFFIXES:  # a list of paths relative to it
        root = root.parent
    if not root.is_dir():
        raise ValueError(
            f"the images of {str(run)!r} are not in {str(root)!r}; name their folder with --images"
        )
    return root.resolve()


def _input(run: Path) -> str:
    spec = read_json(run / "config.json").get("input")
    if not isinstance(spec, str):
        raise ValueError(f"{str(run / 'config.json')!r} names no input; give --images FOLDER")
    return spec


def _paths(rows: LabelRows, root: Path) -> list[Path]:
    """The image of each sample. Refuse names that lead out of the folder, as in a forged table."""
    found = []
    for name in rows.samples:
        path = path_inside(root, name)
        if path is None:
            raise ValueError(
                f"sample {name!r} is not an image below {str(root)!r}; this format needs a run "
                "on a folder or list of images"
            )
        if not path.is_file():
            raise ValueError(
                f"the image {name!r} is not in {str(root)!r}; name its folder with --images"
            )
        found.append(path)
    return found


def _names(rows: LabelRows) -> dict[int, str]:
    """The name of each cluster."""
    labels = rows.labels.tolist()
    names: Sequence[str] = rows.names or [f"cluster {label}" for label in labels]
    return dict(zip(labels, names, strict=True))


def _write_coco(rows: LabelRows, paths: list[Path], folder: Path, copy: bool) -> None:
    """``data/`` and ``labels.json`` in the format of COCO; category numbers start at 1."""
    (folder / "data").mkdir()
    names = sorted(_names(rows).items())
    category = {label: i for i, (label, _) in enumerate(names, 1)}
    images: list[dict[str, Any]] = []
    notes: list[dict[str, Any]] = []
    for row, path in enumerate(paths):
        target = folder / "data" / f"{row:07d}-{path.name}"
        put_image(path, target, copy)
        with open_image(path) as image:
            width, height = image.size
        images.append({"id": row + 1, "file_name": target.name, "width": width, "height": height})
        notes.append(
            {
                "id": row + 1,
                "image_id": row + 1,
                "category_id": category[int(rows.labels[row])],
                "bbox": [0, 0, width, height],
                "area": width * height,
                "iscrowd": 0,
                "score": float(rows.probability[row]),
            }
        )
    categories = [{"id": category[label], "name": name} for label, name in names]
    tree = {"images": images, "annotations": notes, "categories": categories}
    atomic_write(folder / "labels.json", to_json(tree, indent=1) + "\n")


def _write_fiftyone(rows: LabelRows, paths: list[Path], folder: Path, copy: bool) -> None:
    """``data/`` and ``labels.json``, which FiftyOne reads as FiftyOneImageClassificationDataset."""
    (folder / "data").mkdir()
    labels = {}
    names = _names(rows)
    for row, path in enumerate(paths):
        key = f"{row:07d}-{path.stem}"  # stems alone need not be unique
        put_image(path, folder / "data" / f"{key}{path.suffix}", copy)
        labels[key] = {
            "label": names[int(rows.labels[row])],
            "confidence": float(rows.probability[row]),
            "attributes": {
                "sample": rows.samples[row],
                "outlier_score": float(rows.outlier_score[row]),
            },
        }
    atomic_write(folder / "labels.json", to_json({"labels": labels}, indent=1) + "\n")
