"""``unbend``: its commands, its exit codes and how it reports errors.

Nothing here imports torch, so help is instant; each command imports what it needs when it runs.
"""

from __future__ import annotations

import difflib
import errno
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
    explore,
    export,
    inspect,
    predict,
    pretrain,
    push,
    report,
    reproduce,
    update,
)
from unbend.cli.options import Interrupted
from unbend.progress import say

__all__ = ["main"]

BAD_INPUT, INTERRUPTED = 2, 130
_NO_MEMORY = "not enough memory; train on fewer samples with --train-on"

# OpenMP reads this when torch is loaded. Spinning threads make a run several times slower as soon
# as another program needs a core; sleeping threads cost little on an idle machine.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")


class _Group(click.Group):
    """Bad input prints one line and exits with code 2; an interrupt exits with code 130."""

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
        _open_streams()
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
            except (MemoryError, RuntimeError, SystemError) as error:
                if _is_lost_process(error):
                    _say("another process of this run ended; start all again with --resume")
                elif _is_memory(error):
                    _say(_NO_MEMORY)
                else:
                    raise
                code = BAD_INPUT
            except (ValueError, TypeError, ImportError, OSError) as error:
                _say(_NO_MEMORY if _is_memory(error) else _error_message(error))
                code = BAD_INPUT
        sys.exit(code if isinstance(code, int) else 0)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)  # in the order in which users meet them

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        known = self.list_commands(ctx)
        if args and not args[0].startswith("-") and args[0] not in known:
            near = difflib.get_close_matches(args[0], known, 1)
            remedy = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(known)}"
            raise click.UsageError(f"no command {args[0]!r}; {remedy}", ctx)
        return super().resolve_command(ctx, args)


def _is_memory(error: Exception) -> bool:
    """Whether an error of torch or of the system means that memory is exhausted."""
    signs = (
        "can't allocate memory", "out of memory", "can't start new thread", "bad_alloc",
        "could not create a primitive",  # oneDNN
        "failed to map segment", "cannot allocate memory",  # while a library is loaded
        "error return without exception set",  # CPython, when an import has no memory
    )  # fmt: skip
    if isinstance(error, MemoryError) or getattr(error, "errno", None) == errno.ENOMEM:
        return True
    return any(sign in str(error).lower() for sign in signs)


def _error_message(error: Exception) -> str:
    """The message of an error; system errors are rephrased without their number."""
    if isinstance(error, OSError) and error.strerror and error.filename:
        return f"cannot read or write {str(error.filename)!r}: {error.strerror}"
    return str(error) or type(error).__name__


def _is_lost_process(error: Exception) -> bool:
    """Whether gloo or NCCL lost the connection to another process of torchrun."""
    from unbend.workflows.processes import n_launched

    signs = ("closed by peer", "reset by peer", "Broken pipe", "Timed out waiting", "NCCL", "gloo")
    return n_launched() > 1 and any(sign in str(error) for sign in signs)


def _open_streams() -> None:
    """Point closed standard streams to the null device, so that no other file takes their place."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number, which is this one
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w" if number else "r"))  # noqa: SIM115


def _say(text: str) -> None:
    say(f"unbend: {' '.join(text.split())}")


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
      unbend cluster photos/                    # cluster a folder of pictures
      unbend cluster digits -k 10 --compare     # a data set that is included
      unbend cluster embeddings.npy -k auto -o runs/mine
      unbend predict runs/mine new.npy -o labels.csv
      unbend report runs/mine
      unbend explore runs/mine                  # look and correct in a browser
    """


for _module in (
    cluster, predict, update, report, explore, export, inspect, push, embed, pretrain, reproduce,
    benchmark, doctor, completion,
):  # fmt: skip
    main.add_command(_module.command)
