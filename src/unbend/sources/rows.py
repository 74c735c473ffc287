"""Find, count and leave out rows with NaN or infinity."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unbend.disk import check_whole, forget_pages
from unbend.pixels.folders import Broken
from unbend.pixels.lazy import LazySequence
from unbend.tables.table import shorten

__all__ = ["check_broken", "find_bad_rows", "leave_out", "row_names"]

_CHUNK = 1 << 20  # numbers checked at a time


def row_names(n: int) -> Sequence[str]:
    """Row numbers as text."""
    return LazySequence(str, range(n))


def find_bad_rows(X: NDArray[Any]) -> NDArray[np.int64]:
    """Rows with a number that is not finite; a memory map is read piece by piece."""
    if X.dtype.kind != "f":
        return np.zeros(0, np.int64)
    step = max(1, _CHUNK // max(1, int(np.prod(X.shape[1:]))))
    found = []
    for start in range(0, len(X), step):
        check_whole(X)
        part = X[start : start + step]
        good = np.isfinite(part).reshape(len(part), -1).all(axis=1)
        found.append(start + np.flatnonzero(~good))
        forget_pages(X)
    return np.concatenate(found).astype(np.int64) if found else np.zeros(0, np.int64)


def leave_out(
    X: NDArray[Any],
    names: Sequence[str],
    bad: NDArray[np.int64],
    columns: Sequence[str] | None = None,
) -> tuple[NDArray[np.int64], list[Broken]]:
    """The rows that are kept, and a reason for each of the others."""
    kept = np.setdiff1d(np.arange(len(X)), bad)
    broken = [Broken(names[int(row)], _reason(X[int(row)], columns)) for row in bad]
    return kept, broken


def _reason(x: NDArray[Any], columns: Sequence[str] | None) -> str:
    wrong = np.flatnonzero(~np.isfinite(x).ravel())
    what = "NaN" if np.isnan(x).any() else "infinity"
    if columns is not None and len(columns) == x.size and len(wrong) < x.size:
        return f"{what} in {shorten([columns[int(j)] for j in wrong], 5)}"
    return f"{what} in {len(wrong)} of {x.size} numbers"


def check_broken(
    what: str, broken: Sequence[Broken], total: int, limit: float, kind: str = "files"
) -> None:
    """Raise a ValueError that counts all broken samples if there are more than the limit allows."""
    allowed = limit * total + 1e-9  # 0.29 * 100 is slightly less than 29
    if not broken or (len(broken) <= allowed and len(broken) < total):
        return
    first = "; ".join(f"{b.path!r}: {b.reason}" for b in broken[:3])
    if len(broken) == total:
        remedy = "repair or remove them"
    elif limit == 0:
        remedy = "repair them, or leave --strict out to skip them"
    else:
        remedy = "repair them or raise max_broken"
    verb = "used" if kind == "rows" else "read"
    raise ValueError(
        f"{len(broken)} of {total} {kind} of {what} cannot be {verb} "
        f"({len(broken) / total:.1%}, limit {limit:.1%}), e.g. {first}; {remedy}"
    )
