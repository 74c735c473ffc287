"""One folder per cluster, with links to its images."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

__all__ = ["put_image", "write_folders"]

# Names that Windows keeps for devices
_RESERVED = {"con", "prn", "aux", "nul", *(f"{d}{i}" for d in ("com", "lpt") for i in range(1, 10))}


def write_folders(
    labels: Sequence[int],
    paths: Sequence[Path],
    folder: Path,
    copy: bool,
    names: Mapping[int, str] | None = None,
) -> None:
    """Link to (or copy) each image in the folder of its cluster.

    ``names`` are the names that people gave to clusters.
    """
    folders = _folder_names(labels, names or {})
    for row, (label, path) in enumerate(zip(labels, paths, strict=True)):
        place = folder / folders[label]
        place.mkdir(exist_ok=True)
        target = place / path.name
        if target.exists() or target.is_symlink():  # two folders have files of the same name
            target = place / f"{row}-{path.name}"
        put_image(path.resolve(), target, copy)


def _folder_names(labels: Sequence[int], names: Mapping[int, str]) -> dict[int, str]:
    """A folder per cluster: its number, or the name that a person gave it if a path can hold it."""
    digits = len(str(max([0, *labels])))
    found: dict[int, str] = {}
    for label in sorted(set(labels)):
        plain = "noise" if label < 0 else f"cluster_{label:0{digits}d}"
        name = names.get(label, "")
        text = re.sub(r'[\x00-\x1f<>:"/\\|?*]+', "-", name).strip(" .-")[:80].strip(" .-")
        given = name not in (f"Cluster {label}", "Noise")
        usable = given and text and text.casefold() not in _RESERVED
        taken = {other.casefold() for other in found.values()}
        choice = text if usable else plain
        found[label] = f"{choice}-{label}" if choice.casefold() in taken else choice
    return found


def put_image(path: Path, target: Path, copy: bool) -> None:
    """Link to a file, or copy it."""
    if copy:
        shutil.copyfile(path, target)
    else:
        target.symlink_to(path)
