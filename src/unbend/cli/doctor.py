"""``unbend doctor``."""

from __future__ import annotations

import click

from unbend.cli import options

__all__ = ["command"]


@click.command("doctor", short_help="Check the installation.")
@click.option("--test/--no-test", default=True, help="Cluster a few hundred vectors as a test.")
@options.json_option
def command(test: bool, as_json: bool) -> None:
    """Show what is installed, on which devices it runs, and whether it works.

    \b
    Example:
      unbend doctor

    In Python: unbend.workflows.doctor(...).
    """
    from unbend.workflows.doctor import doctor

    result = doctor(test=test)
    options.emit(result.to_dict(), result.summary(), as_json)
    if not result.healthy:
        raise click.ClickException(result.problem)
