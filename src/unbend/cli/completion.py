"""``unbend completion``."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

__all__ = ["command"]


@click.command("completion", short_help="Print a completion script for your shell.")
@click.argument("shell", metavar="SHELL", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def command(ctx: click.Context, shell: str) -> None:
    """Print a script that completes commands, options and paths in SHELL: bash, zsh or fish.

    \b
    Add one of these lines to the start-up file of your shell:
      eval "$(unbend completion bash)"          # ~/.bashrc
      eval "$(unbend completion zsh)"           # ~/.zshrc
      unbend completion fish | source           # ~/.config/fish/config.fish
    """
    kind = get_completion_class(shell)
    assert kind is not None  # click knows all three choices
    click.echo(kind(ctx.find_root().command, {}, "unbend", "_UNBEND_COMPLETE").source())
