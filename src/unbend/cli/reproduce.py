"""``unbend reproduce``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from unbend.cli import options
from unbend.experiments import EXPERIMENTS

__all__ = ["command"]


@click.command(
    "reproduce",
    short_help="Run an experiment of the paper.",
    epilog="\b\nExperiments:\n" + "\n".join(f"  {k:<10} {v}" for k, v in EXPERIMENTS.items()),
)
@click.argument("name", metavar="NAME", type=click.Choice(list(EXPERIMENTS)))
@click.option("--seeds", type=click.IntRange(min=1), help="How many seeds.")
@click.option("--data", metavar="SET|PATH", help="Data in place of the experiment's own.")
@click.option("--encoder", metavar="NAME|PATH", help="Encoder in place of the experiment's own.")
@click.option("--checkpoint", type=click.Path(), help="Weights of stage 1.")
@click.option("--scale", help="Size of the experiment where it has several: small or full.")
@options.out_option("Directory for tables and pictures.", "runs/results")
@click.option("-q", "--quiet", is_flag=True, help="No progress.")
def command(name: str, out: Path, quiet: bool, **given: Any) -> None:
    """Run an experiment of the paper, print its table, write it and its pictures.

    \b
    Examples:
      unbend reproduce figure1
      unbend reproduce digits --seeds 5

    In Python: unbend.workflows.reproduce(...).
    """
    from unbend.workflows.reproduce import reproduce

    chosen = {key: value for key, value in given.items() if value is not None}
    reproduce(name, out=out, verbose=not quiet, **chosen).print()
    click.echo(f"written to {out}/")
