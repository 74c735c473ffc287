"""The function behind ``unbend benchmark``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from unbend.metrics.tables import Table
from unbend.workflows.outputs import fresh_directory

__all__ = ["benchmark"]


def benchmark(
    methods: str | Sequence[str] | None = None,
    data: Sequence[str] | None = None,
    *,
    out: str | Path = "runs/benchmark",
    **options: Any,
) -> Table:
    """Compare methods on data sets in one table, written to ``out``.

    ``methods`` and ``data`` default to those of :func:`unbend.experiments.benchmark.run.run`, which
    takes the ``options``, too: ``seeds``, ``n_clusters``, ``encoder``, ``timeout``, ``progress``
    and ``verbose``. ``methods`` may be one text with commas, ``"mlc,kmeans"``. Results of an
    earlier call are not computed again.
    """
    from unbend.experiments.benchmark.run import run, split_methods

    methods = split_methods(methods) if isinstance(methods, str) else methods
    chosen = {"methods": methods, "data": data}
    options |= {name: list(value) for name, value in chosen.items() if value is not None}
    with fresh_directory(out) as folder:
        return run(out=folder, **options)
