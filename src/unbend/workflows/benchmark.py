"""What ``unbend benchmark`` does, as one function."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

__all__ = ["benchmark"]


def benchmark(
    methods: Sequence[str] | None = None,
    data: Sequence[str] | None = None,
    *,
    seeds: int = 3,
    out: str | Path = "runs/results",
) -> Any:
    """Methods × data sets in one table, written to ``out``; None takes the benchmark's own."""
    from unbend.experiments.benchmark import run

    out = Path(out)
    out.mkdir(parents=True, exist_ok=True)
    chosen = {"methods": methods, "data": data}
    given = {name: list(value) for name, value in chosen.items() if value is not None}
    return run(seeds=seeds, out=out, **given)
