"""The function behind ``unbend inspect``, and duplicates for ``unbend cluster``."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unbend.disk import atomic_write, hash_samples
from unbend.networks import default_encoder, load_encoder
from unbend.networks.encoders import mirror_few
from unbend.notebook import count
from unbend.pixels.decode import content_hash
from unbend.pixels.duplicates import (
    DuplicateGroup,
    duplicate_table,
    group_pairs,
    near_pairs,
)
from unbend.pixels.quality import find_problems
from unbend.progress import Progress, silent
from unbend.report import render_inspection
from unbend.runs import write_csv
from unbend.sources import Source, holds_texts
from unbend.workflows.inputs import Inputs, read_inputs
from unbend.workflows.outputs import fresh_directory
from unbend.workflows.result import Result
from unbend.workflows.run_files import broken_table

__all__ = ["InspectResult", "find_duplicates", "inspect", "without_repeats"]

_SIDE = 128  # pixels; enough to see blur


@dataclass(frozen=True)
class InspectResult(Result):
    """What was found in a folder of images."""

    out: Path
    page: Path
    n_samples: int
    n_exact: int
    n_near: int
    problems: dict[str, int]
    n_broken: int
    seconds: float

    def summary(self) -> str:
        """What was found, and where it is written."""
        poor = ", ".join(f"{n} {kind}" for kind, n in sorted(self.problems.items())) or "none"
        return (
            f"{count(self.n_samples, 'image')}: {self.n_exact} exact and {self.n_near} near "
            f"duplicates of others; poor ones: {poor}; {self.n_broken} unreadable\n"
            f"{self.seconds:.0f} s; lists written to {self.out}/, pictures: {self.page}"
        )


def inspect(
    input: Any,
    *,
    out: str | Path = "inspection",
    encoder: str = "auto",
    workers: int | None = None,
    overwrite: bool = False,
    progress: Progress = silent,
) -> InspectResult:
    """Look for duplicates and poor images before clustering.

    Writes ``inspection.html`` with pictures, and the lists ``duplicates.csv`` (groups of exact
    and near duplicates), ``quality.csv`` (blurred, dark, flat and tiny images) and ``broken.csv``
    (unreadable files, if there are any).

    Parameters
    ----------
    input : path or str
        A folder or a list of images.
    out : path
        Directory of the page and the lists.
    encoder : str
        Its embeddings confirm near-duplicates whose perceptual hashes differ somewhat. ``"auto"``
        takes lite2 if it is installed; ``"none"`` compares perceptual hashes only.
    workers : int, optional
        Number of processes that decode images.
    overwrite : bool
        Replace an earlier inspection.
    progress : callable
        Receives :class:`~unbend.progress.Tick`.
    """
    start = time.perf_counter()
    out = Path(out)
    page, duplicates, quality, broken = (
        out / name for name in ("inspection.html", "duplicates.csv", "quality.csv", "broken.csv")
    )
    there = next((path for path in (page, duplicates, quality, broken) if path.exists()), None)
    if there is not None and not overwrite:
        raise ValueError(f"{str(there)!r} already exists; name another -o or pass --overwrite")
    options: dict[str, Any] = {"workers": workers, "max_broken": 1.0, "progress": progress}
    if holds_texts(input):
        raise ValueError(f"inspect is for image files, and {str(input)!r} holds texts")
    source = read_inputs(input, encoder="none", image_size=_SIDE, **options).source
    if source.paths is None:
        what = "no files" if source.kind == "images" else source.kind
        raise ValueError(f"inspect is for image files, and {str(input)!r} holds {what}")
    named: Any = default_encoder() or "none" if encoder == "auto" else encoder
    if encoder == "auto" and named != "none":  # the one that cluster takes
        named = mirror_few(load_encoder(named), encoder, len(source))
    groups = find_duplicates(read_inputs(input, encoder=named, **options), progress)
    problems = find_problems(source.X, source.paths)
    names = source.names
    with fresh_directory(out):
        write_csv(duplicates, *duplicate_table(groups, names))
        write_csv(quality, ["path", "problem", "measure"], ([names[i], *p] for i, *p in problems))
        if source.broken:
            write_csv(broken, *broken_table(source))
        else:
            broken.unlink(missing_ok=True)  # of an earlier inspection
        html = render_inspection(source.name, source.X, names, groups, problems, source.broken)
        atomic_write(page, html)
    exact = sum(group.n_copies for group in groups)
    extra = sum(len(group.rows) - 1 for group in groups)
    return InspectResult(
        out=out,
        page=page,
        n_samples=len(source),
        n_exact=exact,
        n_near=extra - exact,
        problems=dict(Counter(kind for _, kind, _ in problems)),
        n_broken=len(source.broken),
        seconds=time.perf_counter() - start,
    )


def find_duplicates(inputs: Inputs, progress: Progress = silent) -> list[DuplicateGroup]:
    """Groups of duplicates: near ones among image files, equal ones among all other samples."""
    source = inputs.source
    if source.paths is None or source.X.ndim != 4:
        keys = source.hashes if source.kind != "vectors" else hash_samples(source.X)
        return group_pairs(len(source), np.zeros((0, 2), np.int64), list(keys))
    embeddings = inputs.embeddings(progress) if inputs.encoder is not None else None
    pairs = near_pairs(source.X, embeddings)
    return group_pairs(len(source), pairs, _file_hashes(source))


def _file_hashes(source: Source) -> list[bytes]:
    return [content_hash(path) for path in source.paths or ()]


def without_repeats(
    rows: NDArray[np.int64] | None, groups: list[DuplicateGroup], n: int
) -> NDArray[np.int64] | None:
    """The rows to train on without repeats: of each group only the first is kept."""
    repeats = [i for group in groups for i in group.rows[1:]]
    if not repeats:
        return rows
    kept: NDArray[np.int64] = np.setdiff1d(np.arange(n) if rows is None else rows, repeats)
    return kept
