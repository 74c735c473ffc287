"""``unbend``: its commands and the grammar of its failures.

Nothing here imports torch, so that help is instant; each command imports what it runs.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from unbend import __version__
from unbend.experiments import EXPERIMENTS

__all__ = ["main"]

BAD_INPUT, INTERRUPTED = 2, 130

# Read by OpenMP when torch is loaded. Threads that spin while they wait make a run several times
# slower as soon as another program wants a core; sleeping costs little on an idle machine.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")


class _Group(click.Group):
    """Wrong input is one line and exit code 2; an interrupt is exit code 130."""

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            click.echo("interrupted", err=True)
            sys.exit(INTERRUPTED)
        except (ValueError, TypeError, ImportError, OSError) as error:
            click.echo(f"unbend: {' '.join(str(error).split())}", err=True)
            sys.exit(BAD_INPUT)


def _clusters(ctx: click.Context, param: click.Parameter, value: str) -> int | str:
    if value == "auto":
        return value
    try:
        return int(value)
    except ValueError:
        raise click.BadParameter(f"must be a whole number or auto, got {value!r}") from None


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="unbend")
def main() -> None:
    """Cluster unlabelled images and embeddings by straightening their manifolds."""


@main.command()
@click.argument("input", metavar="INPUT")
@click.option(
    "-k", "n_clusters", default="auto", show_default=True, metavar="K|auto", callback=_clusters,
    help="Number of clusters.",
)  # fmt: skip
@click.option("-o", "out", type=click.Path(path_type=Path), metavar="RUN", help="Run directory.")
@click.option("--preset", default="auto", show_default=True, help="auto, images, vectors or paper.")
@click.option("--seed", default=0, show_default=True, help="Seed of everything.")
@click.option("--device", default="auto", show_default=True, help="auto, cpu, cuda, cuda:1, mps.")
@click.option("--overwrite", is_flag=True, help="Replace an earlier run in RUN.")
@click.option("--compare", is_flag=True, help="Score k-means and spectral clustering too.")
@click.option("--quiet", is_flag=True, help="No progress.")
def cluster(
    input: str,
    n_clusters: int | str,
    out: Path | None,
    preset: str,
    seed: int,
    device: str,
    overwrite: bool,
    compare: bool,
    quiet: bool,
) -> None:
    """Cluster INPUT: a .npy file of vectors or images, or a named set such as digits.

    \b
    Examples:
      unbend cluster digits -k 10 -o runs/digits
      unbend cluster embeddings.npy -k auto
    """
    from unbend.cli.cluster import cluster_input

    summary = cluster_input(
        input,
        n_clusters=n_clusters,
        out=out or Path("runs") / Path(input).stem,
        preset=preset,
        seed=seed,
        device=device,
        overwrite=overwrite,
        compare=compare,
        verbose=not quiet,
    )
    click.echo(summary)


@main.command()
@click.argument("name", metavar="NAME", type=click.Choice(list(EXPERIMENTS)))
@click.option("--seeds", type=click.IntRange(min=1), help="How many seeds.")
@click.option(
    "-o", "out", type=click.Path(path_type=Path), default=Path("runs/results"), show_default=True,
    help="Directory for tables and pictures.",
)  # fmt: skip
def reproduce(name: str, seeds: int | None, out: Path) -> None:
    """Run an experiment, print its table, write it and its pictures.

    \b
    Examples:
      unbend reproduce figure1
      unbend reproduce digits --seeds 5
    """
    from unbend.experiments import experiment

    chosen = {"seeds": seeds} if seeds else {}
    out.mkdir(parents=True, exist_ok=True)  # better now than after the work
    experiment(name)(out=out, **chosen).print()
    click.echo(f"written to {out}/")
