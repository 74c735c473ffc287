"""Settings from a TOML file and from ``--set``."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import click

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = ["known_settings", "load_config", "parse_setting"]


def known_settings() -> list[str]:
    """The dotted name of every setting."""
    from unbend.config import Config

    return [name for name in _leaves(Config(), "") if name != "preset"]


def _leaves(node: Any, prefix: str) -> Iterable[str]:
    for field in fields(node):
        value = getattr(node, field.name)
        name = f"{prefix}{field.name}"
        if is_dataclass(value):
            yield from _leaves(value, f"{name}.")
        else:
            yield name


def parse_setting(text: str) -> tuple[str, Any]:
    """Split ``stage2.eta=0.1`` into a name and a value; values are written as in TOML.

    >>> parse_setting("stage2.eta=0.1"), parse_setting("pretrain.method=moco")
    (('stage2.eta', 0.1), ('pretrain.method', 'moco'))
    """
    name, equals, value = (part.strip() for part in text.partition("="))
    if not equals or not value:
        raise click.UsageError(f"--set takes NAME=VALUE as in stage2.eta=0.1, got {text!r}")
    _check_known(name, known_settings(), "setting")
    try:
        return name, tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        return name, value  # a bare word, not quoted as in TOML


def load_config(ctx: click.Context, param: click.Parameter, path: Path | None) -> None:
    """Use the values of a TOML file as defaults of the command's options.

    Top-level keys are long names of options; tables are settings, such as ``[stage2]``.
    """
    if path is None:
        return
    tree = _read(path)
    options = _options(ctx.command)
    tables = {name.split(".")[0] for name in known_settings()} & set(tree)
    given = {key: value for key, value in tree.items() if key not in tables}
    names = {}
    for key, value in given.items():
        _check_known(key, options, f"key of {str(path)!r}")
        if isinstance(value, (dict, list)):
            raise click.UsageError(f"{key!r} of {str(path)!r} must be a single value")
        names[options[key]] = value
    ctx.default_map = {**(ctx.default_map or {}), **names}
    settings = _flatten({name: tree[name] for name in tables})
    if settings and "set" not in options:
        raise click.UsageError(f"{ctx.command_path} takes no settings, found {min(settings)!r}")
    for name in settings:
        _check_known(name, known_settings(), f"setting of {str(path)!r}")
    ctx.meta["unbend.settings"] = settings


def _read(path: Path) -> dict[str, Any]:
    try:
        if not path.is_file() and path.exists():
            raise ValueError("it is not a regular file")
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        reason = error.strerror or str(error)
        raise click.UsageError(f"cannot read --config {str(path)!r}: {reason}") from error
    except (ValueError, RecursionError) as error:  # decoding errors of TOML and of UTF-8
        deep = isinstance(error, RecursionError)
        reason = "its brackets are too deep" if deep else str(error)
        raise click.UsageError(f"--config {str(path)!r} is not TOML: {reason}") from error


def _options(command: click.Command) -> dict[str, str]:
    """Map every spelling in the file to the name of the parameter."""
    spellings: dict[str, str] = {}
    for param in command.params:
        if param.name is None or param.name in ("config", "help"):
            continue
        for text in (param.name, *param.opts):
            plain = text.lstrip("-")
            spellings |= {plain: param.name, plain.replace("-", "_"): param.name}
    return spellings


def _flatten(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in tree.items():
        if isinstance(value, Mapping):
            flat |= _flatten(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = value
    return flat


def _check_known(name: str, known: Iterable[str], what: str) -> None:
    known = list(known)
    if name not in known:
        last = name.rpartition(".")[2]
        near = [other for other in known if other.rpartition(".")[2] == last]  # in another part
        near = near or difflib.get_close_matches(name, known, 1, 0.5)
        remedy = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(sorted(known))}"
        raise click.UsageError(f"unknown {what} {name!r}; {remedy}")
