"""What ``unbend benchmark`` does, as one function."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from unbend.experiments.tables import Table
from unbend.workflows.outputs import fresh_directory

__all__ = ["benchmark"]


def benchmark(
    methods: Sequence[str] | None = None,
    data: Sequence[str] | None = None,
    *,
    out: str | Path = "runs/benchmark",
    **options: Any,
) -> Table:
    """Methods × data sets in one table, written to ``out``; None takes the benchmark's own.

    ``options`` are those of :func:`unbend.experiments.benchmark.run`: ``seeds``, ``n_clusters``,
    ``encoder``, ``timeout``, ``progress`` and ``verbose``. Cells that are there already are not
    computed again.
    """
    from unbend.experiments.benchmark import run

    chosen = {"methods": methods, "data": data}
    options |= {name: list(value) for name, value in chosen.items() if value is not None}
    with fresh_directory(out) as folder:
        return run(out=folder, **options)
