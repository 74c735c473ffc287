"""Read arrays, on disk and in memory, and named data sets."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unbend.disk import hash_array, hash_samples
from unbend.pixels.lazy import LazySequence
from unbend.sources.matrices import check_input_array, read_array
from unbend.sources.named import load_named
from unbend.sources.options import ReadOptions
from unbend.sources.rows import check_broken, find_bad_rows, leave_out, row_names
from unbend.sources.source import Source, encode_truth, short_name

__all__ = ["array_source", "read_array_file", "read_named_set"]


def read_array_file(path: Path, key: str | None, options: ReadOptions) -> Source:
    """An array on disk; ``key`` chooses one of several."""
    X = check_input_array(read_array(path, key), f"{str(path)!r}")
    truth = options.true_labels(arrays=path)
    return array_source(X, short_name(path), f"{str(path)!r}", options, truth)


def read_named_set(spec: str, options: ReadOptions) -> Source:
    """A data set by its name, with its own labels."""
    if options.labels is not None:
        raise ValueError(f"--labels: {spec!r} has its own labels; leave --labels out")
    data = load_named(spec, progress=options.progress)
    known = bool((data.y >= 0).all())  # the unlabelled part of STL-10 has none
    return Source(
        kind="images",
        name=data.name,
        split=data.split,
        X=data.X,
        names=row_names(len(data.X)),
        y=data.y if known else None,
        classes=data.classes if known else None,
        _hashes=lambda: hash_samples(data.X),
    )


def array_source(
    X: NDArray[Any],
    name: str,
    what: str,
    options: ReadOptions,
    truth: NDArray[Any] | None,
    names: Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
) -> Source:
    """Vectors or images in an array as a source; rows that are not finite are left out.

    ``what`` is the array's name in messages; ``columns`` are those of the table it comes from.
    """
    images, n = X.ndim > 2, len(X)
    names = row_names(n) if names is None else names
    bad = find_bad_rows(X)
    kept, broken = (None, []) if not len(bad) else leave_out(X, names, bad, columns)
    if kept is not None:
        check_broken(what, broken, n, options.max_broken, "rows")
        X, names = np.asarray(X[kept]), LazySequence(names.__getitem__, kept)
    y, classes = encode_truth(truth, kept, n, "sample")
    return Source(
        kind="images" if images else "vectors",
        name=name,
        split="all",
        X=X,
        names=names,
        y=y,
        classes=classes,
        broken=broken,
        _hashes=lambda: hash_samples(X) if images else [hash_array(X)],
    )
