"""``unbend benchmark``."""

from __future__ import annotations

from pathlib import Path

import click

from unbend.cli import options

__all__ = ["command"]


@click.command("benchmark", short_help="Methods × data sets in one table.")
@click.option(
    "--methods", metavar="A,B,...", help="Methods to compare; by default all that are quick."
)
@click.option("--data", metavar="A,B,...", help="Data sets: named sets or arrays with labels.")
@click.option("--seeds", type=click.IntRange(min=1), default=3, show_default=True)
@options.out_option("Directory for the table.", "runs/results")
def command(methods: str | None, data: str | None, seeds: int, out: Path) -> None:
    """Methods × data sets in one table: scores, chance, seconds.

    \b
    Examples:
      unbend benchmark
      unbend benchmark --methods mlc,kmeans,ensc --data digits --seeds 5

    In Python: unbend.workflows.benchmark(...).
    """
    from unbend.workflows.benchmark import benchmark

    chosen = {
        name: [word.strip() for word in words.split(",") if word.strip()]
        for name, words in (("methods", methods), ("data", data))
        if words is not None
    }
    benchmark(out=out, seeds=seeds, **chosen).print()
    click.echo(f"written to {out}/")
