"""Validation rules for the parameters of the classical peers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from unbend.rules import (
    COUNT,
    FLAG,
    SHARE,
    Rule,
    above,
    at_least,
    between,
    check_rule,
    optional,
    whole,
)

__all__ = ["check_count", "check_rules"]

_SEED = whole(0, most=2**32 - 1)  # NumPy takes no larger one

_RULES: dict[str, Rule] = {
    "n_clusters": whole(1, "try 10"),
    "n_init": whole(1, "try 10"),
    "n_neighbors": optional(whole(1)),
    "n_landmarks": whole(1, "try 1000"),
    "n_nonzero": whole(1, "try 10"),
    "max_iter": whole(1),
    "n_components": whole(1, "try 10"),
    "gamma": above(1, "try 50"),
    "l1_ratio": between(0, 1, "try 0.9"),
    "alpha": above(0, "try 0.1"),
    "eta1": optional(above(0)),
    "eta2": optional(above(0)),
    "eta3": at_least(0, "try 0"),
    "min_dist": at_least(0, "try 0"),
    "tol": at_least(0),
    "n_heads": whole(1, "try 10"),
    "n_prototypes": whole(2, "try 1000"),
    "n_inner": whole(1, "try 10"),
    "n_outer": whole(1, "try 1000"),
    "n_folds": whole(2, "try 10"),
    "epochs": whole(1),
    "batch_size": optional(whole(2)),
    "self_label_epochs": optional(whole(0)),
    "semi_epochs": whole(0),
    "passes": whole(1),
    "hidden": whole(1),
    "min_cluster_size": optional(whole(2)),
    "balance": at_least(0),
    "lr": optional(above(0)),
    "inner_lr": optional(above(0)),
    "outer_lr": optional(above(0)),
    "temperature": above(0),
    "logit_bound": above(0),
    "threshold": between(0, 1, "try 0.99"),
    "agreement": between(0, 1, "try 0.9"),
    "beta": Rule(lambda v: SHARE.holds(v) and v > 0, "above 0 and at most 1", "try 0.6"),
    "momentum": optional(between(0, 1)),
    "noise_level": SHARE,
    "consensus": FLAG,
    "warm_start": FLAG,
    "backbone": Rule(
        lambda v: v is None or isinstance(v, (str, Path)), "a path or None", "leave it out"
    ),
    "device": Rule(lambda v: isinstance(v, str), "a string", "try 'cpu'"),
    "verbose": Rule(lambda v: isinstance(v, bool) or COUNT.holds(v), "an integer >= 0", "try 1"),
    "zero_diagonal": FLAG,
    "joint": FLAG,
    "random_state": Rule(
        lambda v: v is None or isinstance(v, np.random.RandomState) or _SEED.holds(v),
        "an integer from 0 to 2**32 - 1, a RandomState or None",
        "try 0",
    ),
}


def check_rules(estimator: Any) -> None:
    """Raise ValueError for the first parameter that breaks its rule.

    An estimator may have rules of its own in ``rules``.
    """
    rules = _RULES | dict(getattr(estimator, "rules", {}))
    for name, value in estimator.get_params(deep=False).items():
        check_rule(f"`{name}` of {type(estimator).__name__}", value, rules[name])


def check_count(estimator: Any, n: int) -> None:
    """Raise ValueError when there are more clusters than samples."""
    if (estimator.n_clusters or 0) > n:
        raise ValueError(
            f"n_clusters={estimator.n_clusters} of {type(estimator).__name__} must be at most "
            f"n_samples={n}; use fewer clusters"
        )
