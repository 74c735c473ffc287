"""``unbend push``."""

from __future__ import annotations

from pathlib import Path

import click

from unbend.cli import options

__all__ = ["command"]


@click.command("push", short_help="Share the model of a run on the Hugging Face hub.")
@click.argument("run", metavar="RUN", type=click.Path(path_type=Path))
@click.argument("repo", metavar="OWNER/NAME")
@click.option("--license", metavar="ID", help="Licence in the model card, such as mit.")
@click.option("--private", is_flag=True, help="Make a new repository private.")
@options.json_option
def command(run: Path, repo: str, license: str | None, private: bool, as_json: bool) -> None:
    """Share the model of RUN on the Hugging Face hub, with a card written from the run.

    \b
    Example:
      unbend push runs/photos me/holiday-photos --license mit

    Log in first: hf auth login. In Python: unbend.workflows.push(...).
    """
    from unbend.workflows.push import push

    url = push(run, repo, license=license, private=private or None)
    options.emit({"url": url}, f"uploaded to {url}", as_json)
