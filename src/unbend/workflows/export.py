"""The function behind ``unbend export``."""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from PIL import Image

from unbend.disk import atomic_directory, atomic_write, to_json
from unbend.explore.keep import curated_labels, curated_rows
from unbend.runs import LabelRows, check_run, needs_mark, read_json, read_labels
from unbend.runs.labels import labels_file
from unbend.sources.decode import FORMATS as IMAGE_FORMATS
from unbend.sources.folders import inside

__all__ = ["FORMATS", "export"]

TABLES = ("csv", "parquet")
FORMATS = (*TABLES, "imagefolder", "coco", "fiftyone")
# Names that Windows keeps for devices
_RESERVED = {"con", "prn", "aux", "nul", *(f"{d}{i}" for d in ("com", "lpt") for i in range(1, 10))}


def export(
    run: str | Path,
    format: str,
    *,
    out: str | Path | None = None,
    images: str | Path | None = None,
    copy: bool = False,
    curated: bool = False,
) -> Path:
    """Export the labels of a run for other programs.

    Parameters
    ----------
    run : path
        A finished run.
    format : {"csv", "parquet", "imagefolder", "coco", "fiftyone"}
        ``"csv"`` and ``"parquet"``: the table of labels. ``"imagefolder"``: one folder per cluster
        with a link to (or a copy of) each image. ``"coco"``: ``data/`` with links and
        ``labels.json``, in which every image has one annotation, a box around all of it.
        ``"fiftyone"``: ``data/`` with links to the images and ``labels.json``, which FiftyOne
        imports as ``FiftyOneImageClassificationDataset``.
    out : path, optional
        By default ``RUN-FORMAT`` next to the run. Must not exist yet.
    images : path, optional
        Folder that the names of the samples are relative to; by default the input of the run.
    copy : bool
        Copy images instead of linking to them.
    curated : bool
        Export the clusters as corrected in ``unbend explore``, with their names.
    """
    run = Path(run)
    if format not in FORMATS:
        raise ValueError(f"`format` must be one of {', '.join(FORMATS)}, got {format!r}")
    if format in TABLES and (copy or images is not None):
        raise ValueError(f"{format} holds no images; leave --copy and --images out")
    check_run(run, "labels.parquet", "config.json")
    rows = curated_rows(*curated_labels(run)) if curated else read_labels(run / "labels.parquet")
    ending = f".{format}" if format in TABLES else ""
    out = Path(out) if out is not None else run.with_name(f"{run.name}-{format}{ending}")
    if out.exists():
        raise ValueError(f"{str(out)!r} already exists; name another with -o")
    if format in TABLES:
        _write_table(rows, out, ending)
        return out
    paths = _paths(rows, _root(run, images))
    with atomic_directory(out) as folder:
        if format == "imagefolder":
            _write_folders(rows, paths, folder, copy)
        elif format == "coco":
            _write_coco(rows, paths, folder, copy)
        else:
            _write_fiftyone(rows, paths, folder, copy)
    return out


def _write_table(rows: LabelRows, out: Path, ending: str) -> None:
    if out.suffix != ending:
        raise ValueError(f"-o must end in {ending}, got {str(out)!r}; rename it")
    out.parent.mkdir(parents=True, exist_ok=True)
    with labels_file(out, mark=needs_mark(rows.samples) or needs_mark(rows.names or ())) as write:
        write(rows)


def _root(run: Path, images: str | Path | None) -> Path:
    """The folder of the images."""
    root = Path(images) if images is not None else Path(_input(run))
    if root.is_file() and root.suffix in (".csv", ".parquet"):  # a list of paths relative to it
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
        path = inside(root, name)
        if path is None:
            raise ValueError(
                f"sample {name!r} is no image or lies outside {str(root)!r}; it is not exported"
            )
        if not path.is_file():
            raise ValueError(
                f"sample {name!r} is no image in {str(root)!r}; name the folder with --images"
            )
        found.append(path)
    return found


def _write_folders(rows: LabelRows, paths: list[Path], folder: Path, copy: bool) -> None:
    folders = _folder_names(rows)
    for row, (label, path) in enumerate(zip(rows.labels.tolist(), paths, strict=True)):
        place = folder / folders[label]
        place.mkdir(exist_ok=True)
        target = place / path.name
        if target.exists() or target.is_symlink():  # two folders have files of the same name
            target = place / f"{row}-{path.name}"
        _put(path, target, copy)


def _folder_names(rows: LabelRows) -> dict[int, str]:
    """A folder per cluster: its number, or the name that a person gave it if a path can hold it."""
    digits = len(str(int(rows.labels.max(initial=0))))
    found: dict[int, str] = {}
    for label, name in sorted(_names(rows).items()):
        plain = "noise" if label < 0 else f"cluster_{label:0{digits}d}"
        text = re.sub(r'[\x00-\x1f<>:"/\\|?*]+', "-", name).strip(" .-")[:80].strip(" .-")
        given = rows.names is not None and name not in (f"Cluster {label}", "Noise")
        usable = given and text and text.casefold() not in _RESERVED
        taken = {other.casefold() for other in found.values()}
        choice = text if usable else plain
        found[label] = f"{choice}-{label}" if choice.casefold() in taken else choice
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
        _put(path, target, copy)
        with Image.open(path, formats=IMAGE_FORMATS) as image:
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
        _put(path, folder / "data" / f"{key}{path.suffix}", copy)
        labels[key] = {
            "label": names[int(rows.labels[row])],
            "confidence": float(rows.probability[row]),
            "attributes": {
                "sample": rows.samples[row],
                "outlier_score": float(rows.outlier_score[row]),
            },
        }
    atomic_write(folder / "labels.json", to_json({"labels": labels}, indent=1) + "\n")


def _put(path: Path, target: Path, copy: bool) -> None:
    if copy:
        shutil.copyfile(path, target)
    else:
        target.symlink_to(path)
