"""``unbend reproduce``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from unbend.cli import options

__all__ = ["command"]


def _experiments() -> dict[str, str]:
    """Names and descriptions, imported on demand: no other command loads the experiments."""
    from unbend.experiments import EXPERIMENTS

    return EXPERIMENTS


class _Reproduce(click.Command):
    """Lists the experiments below its options."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Experiments"):
            formatter.write_dl(list(_experiments().items()))


def _complete(ctx: click.Context, param: click.Parameter, text: str) -> list[str]:
    return [name for name in _experiments() if name.startswith(text)]


@click.command("reproduce", cls=_Reproduce, short_help="Run an experiment of the paper.")
@click.argument("name", metavar="NAME", shell_complete=_complete)
@click.option("--seeds", type=click.IntRange(min=1), help="Number of seeds.")
@click.option("--data", metavar="SET|PATH", help="Data to use instead of the experiment's own.")
@click.option(
    "--encoder", metavar="NAME|PATH", help="Encoder to use instead of the experiment's own."
)
@click.option("--checkpoint", type=click.Path(), help="Weights of stage 1.")
@click.option("--list", metavar="NAME", help="List of problems: development or test.")
@click.option("--methods", metavar="A,B,...", help="Some methods instead of all.")
@click.option("--scale", help="Size of the experiment where it has several: small or full.")
@options.out_option("Directory for tables and pictures.", "runs/results")
@click.option("-q", "--quiet", is_flag=True, help="Show no progress.")
def command(name: str, out: Path, quiet: bool, **given: Any) -> None:
    """Run an experiment of the paper, print its table, and write table and pictures.

    \b
    Examples:
      unbend reproduce figure1
      unbend reproduce digits --seeds 5
      unbend reproduce suite --list development --data digits,vowel

    In Python: unbend.workflows.reproduce(...).
    """
    from unbend.workflows.reproduce import reproduce

    chosen = {key: value for key, value in given.items() if value is not None}
    reproduce(name, out=out, verbose=not quiet, **chosen).print()
    click.echo(f"written to {out}/")
