"""``unbend``: its commands and the grammar of its failures.

Nothing here imports torch, so that help is instant; each command imports what it runs.
"""

from __future__ import annotations

import difflib
import os
import sys
import warnings
from collections.abc import Sequence
from typing import Any

import click

from unbend import __version__
from unbend.cli import (
    benchmark,
    cluster,
    completion,
    doctor,
    embed,
    export,
    predict,
    pretrain,
    report,
    reproduce,
)
from unbend.cli.options import Interrupted

__all__ = ["main"]

BAD_INPUT, INTERRUPTED = 2, 130

# Read by OpenMP when torch is loaded. Threads that spin while they wait make a run several times
# slower as soon as another program wants a core; sleeping costs little on an idle machine.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")


class _Group(click.Group):
    """Wrong input is one line and exit code 2; an interrupt is exit code 130."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:
        if not standalone_mode:
            return super().main(args, prog_name, complete_var, False, **extra)
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning
            try:
                code = super().main(args, prog_name or "unbend", complete_var, False, **extra)
            except Interrupted as error:
                _say(error.format_message())
                code = INTERRUPTED
            except click.Abort:
                _say("interrupted")
                code = INTERRUPTED
            except click.exceptions.NoArgsIsHelpError as error:
                click.echo(error.format_message())
                code = 0
            except click.UsageError as error:
                where = f" (see {error.ctx.command_path} --help)" if error.ctx else ""
                _say(error.format_message().rstrip(".") + where)
                code = BAD_INPUT
            except click.ClickException as error:
                _say(error.format_message())
                code = BAD_INPUT
            except MemoryError as error:
                _say(f"not enough memory ({error}); take fewer samples, see --train-on")
                code = BAD_INPUT
            except (ValueError, TypeError, ImportError, OSError) as error:
                _say(str(error) or type(error).__name__)
                code = BAD_INPUT
        sys.exit(code if isinstance(code, int) else 0)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)  # the order in which one meets them

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        known = self.list_commands(ctx)
        if args and not args[0].startswith("-") and args[0] not in known:
            near = difflib.get_close_matches(args[0], known, 1)
            remedy = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(known)}"
            raise click.UsageError(f"no command {args[0]!r}; {remedy}", ctx)
        return super().resolve_command(ctx, args)


def _say(text: str) -> None:
    click.echo(f"unbend: {' '.join(text.split())}", err=True)


def _show_warning(message: Warning | str, *details: Any, **options: Any) -> None:
    _say(f"warning: {message}")


@click.group(
    cls=_Group, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(__version__, prog_name="unbend")
def main() -> None:
    """Cluster unlabelled images and embeddings by straightening their manifolds.

    \b
    Examples:
      unbend cluster photos/                    # groups of a folder of pictures
      unbend cluster digits -k 10 --compare     # a data set that comes along
      unbend cluster embeddings.npy -k auto -o runs/mine
      unbend predict runs/mine new.npy -o labels.csv
      unbend report runs/mine
    """


for _module in (
    cluster, predict, report, export, embed, pretrain, reproduce, benchmark, doctor, completion,
):  # fmt: skip
    main.add_command(_module.command)
