"""Rules for the parameters of an estimator, and the settings that they set."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from unbend.budget import BUDGET
from unbend.config import PARAMETERS, PRESETS, setting
from unbend.networks import BACKBONES
from unbend.rules import FLAG, Rule, check_rule, one_of, optional, whole

__all__ = ["check_parameters", "hook_name", "seed_of", "settings_of", "unchanged_on_error"]


def _or(rule: Rule, kind: Callable[[Any], bool], text: str) -> Rule:
    return Rule(lambda v: kind(v) or rule.holds(v), f"{rule.text} or {text}", rule.remedy)


def _is_path(value: Any) -> bool:
    return isinstance(value, (str, Path))


def _is_encoder(value: Any) -> bool:
    return _is_path(value) or callable(value) or hasattr(value, "encode")


def _are_callable(value: Any) -> bool:
    return isinstance(value, Sequence) and all(callable(v) for v in value)


def _is_seed(value: Any) -> bool:
    number = whole(0).holds(value) and value < 2**63
    return bool(number or isinstance(value, np.random.RandomState))


_NAMED_BACKBONE = one_of("auto", *BACKBONES)
_RULES: dict[str, Rule] = {
    "n_clusters": Rule(
        lambda v: v == "auto" if isinstance(v, str) else whole(1).holds(v),
        "an integer >= 1 or 'auto'",
        "try 'auto'",
    ),
    "preset": one_of("auto", *PRESETS),
    "budget": BUDGET,
    "backbone": _or(_NAMED_BACKBONE, lambda v: isinstance(v, nn.Module), "a Module"),
    "views": _or(setting("views.source").metadata["rule"], callable, "a callable"),
    "train_backbone": FLAG,
    "outliers": one_of("score", "label"),
    "objective": Rule(callable, "a callable", "leave it out"),
    "callbacks": Rule(_are_callable, "a list of callables", "leave it out"),
    "encoder": Rule(_is_encoder, "a name, a path, a callable or an Encoder", "try 'lite2'"),
    "cache_dir": optional(Rule(_is_path, "a path", "try 'auto'")),
    "settings": Rule(lambda v: isinstance(v, dict), "a dict", "try {'stage2.lr': 0.01}"),
    "device": Rule(lambda v: isinstance(v, str), "a string", "try 'cpu'"),
    "precision": one_of("32-true", "bf16-mixed", "16-mixed", "64-true"),
    "random_state": Rule(
        _is_seed, "an integer >= 0 below 2**63, a RandomState or None", "try 0"
    ),
    "verbose": Rule(
        lambda v: whole(0).holds(v) or isinstance(v, bool), "an integer >= 0", "try 1"
    ),
}  # fmt: skip


def check_parameters(estimator: Any) -> None:
    """Raise ValueError for the first parameter that breaks its rule.

    The rule comes from the estimator's ``rules``, from the table above, or from the setting that
    the parameter sets. None is valid if it is the default.
    """
    own: Mapping[str, Rule] = getattr(estimator, "rules", {})
    defaults = signature(type(estimator)).parameters
    for name, value in estimator.get_params(deep=False).items():
        rule, default = own.get(name) or _rule_of(name), defaults[name].default
        if rule is not None and not (value is None and default is None):
            check_rule(f"`{name}` of {type(estimator).__name__}", value, rule)


def _rule_of(name: str) -> Rule | None:
    if name in _RULES or name not in PARAMETERS:
        return _RULES.get(name)
    knob = setting(PARAMETERS[name][0]).metadata
    rule: Rule = knob["rule"]
    example = knob["example"]
    return rule if example is None else rule._replace(remedy=f"try {example!r}")


def settings_of(
    estimator: Any, table: Mapping[str, tuple[str, ...]] = PARAMETERS
) -> dict[str, Any]:
    """The settings from those parameters of an estimator that are not at their default."""
    defaults = signature(type(estimator)).parameters
    found: dict[str, Any] = {}
    for name, value in estimator.get_params(deep=False).items():
        same = isinstance(value, str) and value == defaults[name].default
        if name not in table or value is None or same:
            continue
        if isinstance(value, nn.Module):
            value = hook_name(value)
        if not callable(value):
            value = str(value) if isinstance(value, Path) else value
            found |= dict.fromkeys(table[name], value)
    return found


@contextmanager
def unchanged_on_error(estimator: Any) -> Iterator[None]:
    """Restore the attributes of an estimator if the block fails or is interrupted."""
    before = dict(vars(estimator))
    try:
        yield
    except BaseException:
        vars(estimator).clear()
        vars(estimator).update(before)
        raise


def hook_name(hook: Any) -> str:
    """The name under which results record code from the caller.

    >>> hook_name(nn.Linear(2, 3)), hook_name(min)
    ('module:Linear', 'callable:min')
    """
    kind = "module" if isinstance(hook, nn.Module) else "callable"
    return f"{kind}:{getattr(hook, '__name__', type(hook).__name__)}"


def seed_of(random_state: Any) -> int:
    """The seed for a scikit-learn ``random_state``; None draws a random one."""
    if random_state is None:
        return int(np.random.default_rng().integers(2**31))
    if isinstance(random_state, (int, np.integer)):
        return int(random_state)
    return int(random_state.randint(2**31 - 1))
