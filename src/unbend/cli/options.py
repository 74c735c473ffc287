"""Options, checks and output that several commands share."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from unbend.cli.settings import load_config, parse_setting

if TYPE_CHECKING:
    from unbend.progress import Progress

__all__ = [
    "Interrupted",
    "announce",
    "broken_options",
    "budget_of",
    "budget_options",
    "collect_settings",
    "config_option",
    "device_options",
    "emit",
    "encoder_option",
    "engine_options",
    "json_option",
    "out_option",
    "output_options",
    "pretraining_methods",
    "progress_for",
    "ray_out",
    "refuse_for_ray",
    "seed_option",
    "set_option",
    "table_options",
    "whole_or",
]

F = TypeVar("F", bound=Callable[..., Any])


class Interrupted(click.ClickException):
    """The user pressed Ctrl-C; the message says how to continue."""


def whole_or(*words: str) -> Callable[[click.Context, click.Parameter, Any], int | str]:
    """Callback for an option that is a whole number or one of ``words``."""

    def check(ctx: click.Context, param: click.Parameter, value: Any) -> int | str:
        text = str(value)
        if text in words:
            return text
        try:
            return int(text)
        except ValueError:
            allowed = " or ".join(words)
            raise click.BadParameter(f"must be a whole number or {allowed}, got {text!r}") from None

    return check


def config_option(function: F) -> F:
    """``--config``: a TOML file with defaults for the other options."""
    return click.option(
        "--config", is_eager=True, expose_value=False, callback=load_config,
        type=click.Path(path_type=Path), metavar="FILE.toml",
        help="Read options and settings from a file; flags take precedence.",
    )(function)  # fmt: skip


def set_option(function: F) -> F:
    """``--set``: any setting by its dotted name."""
    return click.option(
        "--set", "settings", multiple=True, metavar="NAME=VALUE",
        help="Change any setting by its dotted name, such as stage2.eta=0.1; may be repeated.",
    )(function)  # fmt: skip


def collect_settings(flags: tuple[str, ...]) -> dict[str, Any]:
    """Settings from the file and from flags; flags take precedence."""
    stored = click.get_current_context().meta.get("unbend.settings", {})
    return {**stored, **dict(parse_setting(text) for text in flags)}


def pretraining_methods() -> list[str]:
    """Names of the methods of stage 1, from their file names: help must not import them."""
    folder = Path(__file__).parents[1] / "pretrain" / "methods"
    return sorted(
        (p.stem for p in folder.glob("[a-z]*.py")), key=lambda name: (name != "tcr", name)
    )


def seed_option(function: F) -> F:
    """``--seed``."""
    return click.option(
        "--seed", default=0, show_default=True, type=click.IntRange(min=0),
        help="Seed of all random numbers.",
    )(function)  # fmt: skip


def device_options(function: F) -> F:
    """``--device`` and ``--precision``."""
    function = click.option(
        "--precision", default="32-true", show_default=True,
        type=click.Choice(["32-true", "bf16-mixed", "16-mixed", "64-true"]),
        help="Floating-point precision of training.",
    )(function)  # fmt: skip
    return click.option(
        "--device", default="auto", show_default=True, help="auto, cpu, cuda, cuda:1 or mps."
    )(function)


def budget_options(function: F) -> F:
    """``--budget`` and its short form ``--quick``."""
    function = click.option("--quick", is_flag=True, help="Short for --budget quick.")(function)
    return click.option(
        "--budget", default="normal", show_default=True, metavar="quick|normal|thorough|SECONDS",
        callback=_name_or_seconds,
        help="How long training may take; it plans the number of steps, for two cores of a laptop. "
        "normal: 3 minutes up to 10,000 samples, at most 10.",
    )(function)  # fmt: skip


def _name_or_seconds(ctx: click.Context, param: click.Parameter, value: Any) -> str | float:
    try:
        return float(value)
    except ValueError:
        return str(value)  # checked later, by a rule that lists the known words


def budget_of(given: dict[str, Any]) -> str | float:
    """The budget from both options, which are removed from ``given``."""
    quick, budget = given.pop("quick"), given.pop("budget")
    if quick and budget not in ("normal", "quick"):
        raise click.UsageError(f"--quick and --budget {budget} contradict each other; give one")
    return "quick" if quick else budget


def encoder_option() -> Callable[[F], F]:
    """``--encoder``."""
    return click.option(
        "--encoder", default="auto", show_default=True, metavar="NAME|PATH|none",
        help="Pre-trained encoder: lite0, lite2, hf:NAME or a checkpoint; none trains on pixels; "
        "auto uses none for gray images that are up to 40 pixels wide or separate better by their "
        "pixels, else lite2. NAME+mirror takes the mean with the mirror image, as auto does up to "
        "10,000 images. For texts: tfidf, hf:NAME or a folder.",
    )  # fmt: skip


def table_options(function: F) -> F:
    """``--columns``, ``--exclude``, ``--id``, ``--text``: what to read from a table."""
    for option in (
        click.option("--text", metavar="COLUMN", help="Cluster the texts in this column."),
        click.option("--id", metavar="COLUMN", help="Column of ids; they name the samples."),
        click.option(
            "--exclude", metavar="COLUMNS",
            help="Columns to leave out, as in 'price,date*'.",
        ),
        click.option(
            "--columns", metavar="COLUMNS",
            help="Columns to cluster, as in 'a,b,x*'; default: all numbers except ids and labels.",
        ),
    ):  # fmt: skip
        function = option(function)
    return function


def broken_options(function: F) -> F:
    """``--max-broken`` and ``--strict``."""
    function = click.option(
        "--strict", is_flag=True, help="Refuse broken images and rows instead of skipping them."
    )(function)
    return click.option(
        "--max-broken", default=0.1, show_default=True, type=click.FloatRange(0, 1),
        help="Tolerated share of unreadable images and of rows with NaN; they are listed in "
        "broken.csv.",
    )(function)  # fmt: skip


def out_option(what: str, default: str | None = None) -> Callable[[F], F]:
    """``-o``."""
    return click.option(
        "-o", "--out", type=click.Path(path_type=Path), default=default,
        show_default=default is not None, metavar="PATH", help=what,
    )  # fmt: skip


def engine_options(function: F) -> F:
    """``--engine`` and ``--resume``, for inputs that one machine cannot hold."""
    function = click.option(
        "--resume", is_flag=True, help="With --engine ray: compute only the parts that are missing."
    )(function)
    return click.option(
        "--engine", type=click.Choice(["local", "ray"]), default="local", show_default=True,
        help="ray spreads a folder of .parquet files, .tar files or images over a Ray cluster; -o "
        "is then a directory.",
    )(function)  # fmt: skip


def ray_out(out: Path, default: str) -> str:
    """The output directory of ``--engine ray``; the default of the local engine is a file."""
    if str(out) == default:
        return Path(default).stem
    if out.suffix:
        raise click.UsageError(f"-o of --engine ray must be a directory, got {str(out)!r}")
    return str(out)


def refuse_for_ray(**given: bool) -> None:
    """Raise if an option that ``--engine ray`` does not support was given."""
    for name, is_given in given.items():
        if is_given:
            raise click.UsageError(f"--engine ray does not support --{name}; leave it out")


def json_option(function: F) -> F:
    """``--json``."""
    return click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")(
        function
    )


def output_options(function: F) -> F:
    """``--quiet`` and ``--json``."""
    quiet = click.option("-q", "--quiet", is_flag=True, help="Show no progress.")
    return quiet(json_option(function))


def announce(text: str, quiet: bool) -> None:
    """A first line on standard error, before anything slow is imported."""
    if not quiet and os.environ.get("RANK", "0") == "0":
        from unbend.progress import say

        say(text)


def progress_for(quiet: bool) -> AbstractContextManager[Progress]:
    """Progress on standard error, or none."""
    from unbend.progress import console_progress, silent
    from unbend.workflows.processes import is_first

    return nullcontext(silent) if quiet or not is_first() else console_progress()


def emit(result: Mapping[str, Any], text: str, as_json: bool, *, to_stderr: bool = False) -> None:
    """Print the result as JSON or as text; of several processes only the first prints.

    ``to_stderr`` is for results that follow data on standard output.
    """
    from unbend.workflows.processes import is_first

    if not is_first():
        return
    if to_stderr:
        click.echo(text, err=True)
        return
    try:
        click.echo(json.dumps(result, indent=2, ensure_ascii=False) if as_json else text)
    except BrokenPipeError:  # the reader stopped early
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        reason = error.strerror or str(error)
        raise OSError(f"cannot print the result ({reason}); the work itself is done") from error
