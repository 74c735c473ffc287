"""The function behind ``unbend reproduce``."""

from __future__ import annotations

import difflib
from inspect import signature
from pathlib import Path
from typing import Any

from unbend.workflows.outputs import fresh_directory

__all__ = ["reproduce"]


def reproduce(name: str, *, out: str | Path = "runs/results", **options: Any) -> Any:
    """Run an experiment by name, write its table to ``out`` and return it.

    ``options`` are those of the experiment: ``seeds``, and where it has them ``data``,
    ``encoder``, ``checkpoint``, ``scale``, ``list``, ``methods`` and ``verbose``.
    """
    from unbend.experiments import EXPERIMENTS, experiment

    if name not in EXPERIMENTS:
        near = difflib.get_close_matches(name, EXPERIMENTS, 1)
        hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(EXPERIMENTS)}"
        raise ValueError(f"no experiment {name!r}; {hint}")
    run = experiment(name)
    known = signature(run).parameters
    if "verbose" in options and "verbose" not in known:
        del options["verbose"]  # this experiment shows no progress
    for option in options:
        if option not in known:
            raise ValueError(f"experiment {name!r} takes no --{option}; leave it out")
    with fresh_directory(out) as folder:
        return run(out=folder, **options)
