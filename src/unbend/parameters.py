"""One table of what each parameter of an estimator may be."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np

from unbend.config import PRESETS

__all__ = ["check_parameters"]


class _Rule(NamedTuple):
    holds: Callable[[Any], bool]
    text: str
    remedy: str


def _whole(low: int) -> Callable[[Any], bool]:
    return lambda v: not isinstance(v, bool) and isinstance(v, Integral) and int(v) >= low


def _positive(v: Any) -> bool:
    return not isinstance(v, bool) and isinstance(v, Real) and 0 < float(v) < float("inf")


def _one_of(*names: str) -> _Rule:
    return _Rule(lambda v: v in names, "one of " + ", ".join(names), f"try {names[0]!r}")


def _optional(rule: _Rule) -> _Rule:
    return _Rule(lambda v: v is None or rule.holds(v), rule.text, rule.remedy)


_RULES: dict[str, _Rule] = {
    "n_clusters": _Rule(
        lambda v: v == "auto" if isinstance(v, str) else _whole(1)(v),
        "an integer >= 1 or 'auto'",
        "try 'auto'",
    ),
    "preset": _one_of("auto", *PRESETS),
    "dim": _optional(_Rule(_whole(1), "an integer >= 1", "try 64")),
    "backbone": _optional(
        _one_of("auto", "resnet18", "resnet18-imagenet", "convnet", "mlp", "identity")
    ),
    "n_views": _optional(_Rule(_whole(1), "an integer >= 1", "try 2")),
    "n_neighbors": _optional(_Rule(_whole(0), "an integer >= 0", "try 10")),
    "pretrain": _optional(_one_of("tcr", "none")),
    "pretrain_epochs": _optional(_Rule(_whole(0), "an integer >= 0", "try 60")),
    "epochs": _optional(_Rule(_whole(0), "an integer >= 0", "try 30")),
    "batch_size": _optional(_Rule(_whole(2), "an integer >= 2", "try 1024")),
    "eta": _optional(_Rule(_positive, "> 0", "try 0.175")),
    "eps_sq": _optional(_Rule(_positive, "> 0", "try 0.1")),
    "train_backbone": _optional(
        _Rule(lambda v: isinstance(v, (bool, np.bool_)), "True or False", "try False")
    ),
    "settings": _optional(
        _Rule(lambda v: isinstance(v, dict), "a dict", "try {'stage2.lr': 0.01}")
    ),
    "max_clusters": _optional(_Rule(_whole(2), "an integer >= 2", "try 50")),
    "label_method": _one_of("auto", "dense", "blocks", "landmarks"),
    "device": _Rule(lambda v: isinstance(v, str), "a string", "try 'cpu'"),
    "precision": _Rule(lambda v: isinstance(v, str), "a string", "try '32-true'"),
    "random_state": _optional(
        _Rule(
            lambda v: _whole(0)(v) or isinstance(v, np.random.RandomState),
            "an integer >= 0, a RandomState or None",
            "try 0",
        )
    ),
    "verbose": _Rule(lambda v: _whole(0)(v) or isinstance(v, bool), "an integer >= 0", "try 1"),
}


def check_parameters(estimator: Any) -> None:
    """Raise ValueError for the first parameter that breaks its rule.

    Only the parameters an estimator has are looked at, so peers share the table.
    """
    for name, value in estimator.get_params(deep=False).items():
        rule = _RULES.get(name)
        if rule is not None and not rule.holds(value):
            owner = type(estimator).__name__
            raise ValueError(
                f"`{name}` of {owner} must be {rule.text}, got {value!r}; {rule.remedy}"
            )
