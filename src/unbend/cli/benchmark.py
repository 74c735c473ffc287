"""``unbend benchmark``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from unbend.cli import options

__all__ = ["command"]


@click.command("benchmark", short_help="Compare methods on data sets in one table.")
@click.option(
    "--methods", metavar="A,B,...",
    help="Methods to compare, such as mlc,kmeans,ensc; by default some quick ones.",
)  # fmt: skip
@click.option(
    "--data", metavar="A,B,...",
    help="Data sets, such as digits,cifar10:test,x.npy@y.npy; by default digits.",
)  # fmt: skip
@click.option(
    "--seeds", type=click.IntRange(min=1), default=5, show_default=True, help="Number of seeds."
)
@click.option(
    "-k",
    "--n-clusters",
    type=click.IntRange(min=1),
    help="Number of clusters; by default the number of classes.",
)
@click.option("--encoder", metavar="NAME|PATH", help="Embed images with this encoder first.")
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    help="Seconds after which a cell counts as failed.",
)
@options.out_option("Directory for the table and its cells.", "runs/benchmark")
@click.option("-q", "--quiet", is_flag=True, help="Show no progress.")
def command(methods: str | None, data: str | None, out: Path, quiet: bool, **given: Any) -> None:
    """Compare methods on data sets in one table: scores, chance level, seconds.

    Results of an earlier call are kept; only missing ones are computed.

    \b
    Examples:
      unbend benchmark
      unbend benchmark --methods mlc,kmeans,ensc --data digits --seeds 3

    In Python: unbend.workflows.benchmark(...).
    """
    from unbend.workflows.benchmark import benchmark

    table = benchmark(methods, _words(data), out=out, verbose=not quiet, **given)
    table.print()
    click.echo(f"written to {out}/")


def _words(text: str | None) -> list[str] | None:
    return None if text is None else [word.strip() for word in text.split(",") if word.strip()]
