"""What ``unbend reproduce`` does, as one function."""

from __future__ import annotations

import difflib
from inspect import signature
from pathlib import Path
from typing import Any

from unbend.experiments import EXPERIMENTS, experiment

__all__ = ["reproduce"]


def reproduce(name: str, *, out: str | Path = "runs/results", **options: Any) -> Any:
    """Run an experiment by its name, write its table to ``out`` and return it.

    ``options`` are those of the experiment: ``seeds``, and where it has them ``data``,
    ``encoder``, ``checkpoint`` and ``scale``.
    """
    if name not in EXPERIMENTS:
        near = difflib.get_close_matches(name, EXPERIMENTS, 1)
        hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(EXPERIMENTS)}"
        raise ValueError(f"no experiment {name!r}; {hint}")
    run = experiment(name)
    known = signature(run).parameters
    for option in options:
        if option not in known:
            raise ValueError(f"experiment {name!r} takes no --{option}; leave it out")
    out = Path(out)
    out.mkdir(parents=True, exist_ok=True)  # better now than after the work
    return run(out=out, **options)
