"""The function behind ``unbend embed``."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unbend.notebook import count
from unbend.progress import Progress, silent
from unbend.runs import npy_file, write_csv
from unbend.workflows.inputs import read_inputs
from unbend.workflows.outputs import check_folder
from unbend.workflows.predict import list_broken
from unbend.workflows.result import Result
from unbend.workflows.streaming import chunks

__all__ = ["EmbedResult", "embed"]


@dataclass(frozen=True)
class EmbedResult(Result):
    """The result of embedding images."""

    out: Path
    n_samples: int
    dim: int
    n_broken: int
    encoder: str
    seconds: float
    broken: Path | None = None  # the list of them

    def summary(self) -> str:
        """One line of text."""
        left_out = f", {count(self.n_broken, 'broken file')} left out, listed in {self.broken}"
        broken = left_out if self.n_broken else ""
        return (
            f"{count(self.n_samples, 'image')} as vectors of width {self.dim}{broken}, "
            f"{self.seconds:.0f} s; written to {self.out}"
        )


def embed(
    input: Any,
    *,
    encoder: str = "lite2",
    out: str | Path = "embeddings.npy",
    overwrite: bool = False,
    device: str = "auto",
    workers: int | None = None,
    progress: Progress = silent,
) -> EmbedResult:
    """Encode images into a ``.npy`` array.

    A csv file of the same name lists the sample of each row, and ``OUT.broken.csv`` the files that
    could not be read. Images that were encoded before come from the cache.
    """
    start = time.perf_counter()
    out = Path(out)
    names_file = out.with_suffix(".csv")
    if out.suffix != ".npy":
        raise ValueError(f"-o must end in .npy, got {str(out)!r}; rename it")
    for path in (out, names_file):
        if path.exists() and not overwrite:
            raise ValueError(f"{str(path)!r} already exists; name another or pass --overwrite")
    check_folder(out)
    if encoder in ("none", "auto"):
        raise ValueError(
            f"--encoder of embed must name an encoder, got {encoder!r}; try lite2+mirror, which "
            "cluster takes for up to 10,000 images, or lite2"
        )
    inputs = read_inputs(input, encoder=encoder, device=device, workers=workers, progress=progress)
    assert inputs.encoder is not None  # "none" was refused above
    Z = inputs.embeddings(progress)
    with npy_file(out, (len(Z), int(Z.shape[1]))) as write:
        for _, rows in chunks(Z):
            write(rows)
        # The array gets its name next: both files are there, or none.
        write_csv(names_file, ["sample"], ([name] for name in inputs.source.names))
    listed = list_broken(out, inputs.source)
    return EmbedResult(
        out=out,
        n_samples=len(Z),
        dim=int(Z.shape[1]),
        n_broken=len(inputs.source.broken),
        encoder=inputs.encoder.name,
        seconds=time.perf_counter() - start,
        broken=listed,
    )
