"""One folder per cluster, with links to its images."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

__all__ = ["put_image", "write_folders"]


def write_folders(labels: Sequence[int], paths: Sequence[Path], folder: Path, copy: bool) -> None:
    """Link to (or copy) each image in the folder of its cluster."""
    digits = len(str(max([0, *labels])))
    for row, label in enumerate(labels):
        path = paths[row]
        place = folder / f"cluster_{label:0{digits}d}"
        place.mkdir(exist_ok=True)
        target = place / path.name
        if target.exists() or target.is_symlink():  # two folders have files of the same name
            target = place / f"{row}-{path.name}"
        put_image(path.resolve(), target, copy)


def put_image(path: Path, target: Path, copy: bool) -> None:
    """Link to a file, or copy it."""
    if copy:
        shutil.copyfile(path, target)
    else:
        target.symlink_to(path)
