"""What each parameter of a peer may be."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np

__all__ = ["check_count", "check_rules"]


class _Rule(NamedTuple):
    holds: Callable[[Any], bool]
    text: str
    remedy: str


def _is_whole(value: Any, low: int) -> bool:
    return not isinstance(value, bool) and isinstance(value, Integral) and int(value) >= low


def _is_real(value: Any) -> bool:
    return not isinstance(value, bool) and isinstance(value, Real) and np.isfinite(float(value))


def _whole(low: int, remedy: str, *, optional: bool = False) -> _Rule:
    text = f"an integer >= {low}" + (" or None" if optional else "")
    return _Rule(lambda v: (optional and v is None) or _is_whole(v, low), text, remedy)


def _above(low: float, remedy: str, *, optional: bool = False) -> _Rule:
    text = f"a number > {low:g}" + (" or None" if optional else "")
    return _Rule(lambda v: (optional and v is None) or (_is_real(v) and v > low), text, remedy)


def _from(low: float, remedy: str) -> _Rule:
    return _Rule(lambda v: _is_real(v) and v >= low, f"a number >= {low:g}", remedy)


_FLAG = _Rule(lambda v: isinstance(v, (bool, np.bool_)), "True or False", "try False")

_RULES: dict[str, _Rule] = {
    "n_clusters": _whole(1, "try 10"),
    "n_init": _whole(1, "try 10"),
    "n_neighbors": _whole(1, "leave it out", optional=True),
    "n_landmarks": _whole(1, "try 1000"),
    "n_nonzero": _whole(1, "try 10"),
    "max_iter": _whole(1, "leave it out"),
    "n_components": _whole(1, "try 10"),
    "gamma": _above(1, "try 50"),
    "l1_ratio": _Rule(lambda v: _is_real(v) and 0 < v < 1, "a number in (0, 1)", "try 0.9"),
    "alpha": _above(0, "try 0.1"),
    "eta1": _above(0, "leave it out", optional=True),
    "eta2": _above(0, "leave it out", optional=True),
    "eta3": _from(0, "try 0"),
    "min_dist": _from(0, "try 0"),
    "tol": _from(0, "leave it out"),
    "zero_diagonal": _FLAG,
    "joint": _FLAG,
    "random_state": _Rule(
        lambda v: v is None or isinstance(v, np.random.RandomState) or _is_whole(v, 0),
        "an integer >= 0, a RandomState or None",
        "try 0",
    ),
}


def check_rules(estimator: Any) -> None:
    """Raise ValueError for the first parameter that breaks its rule."""
    for name, value in estimator.get_params(deep=False).items():
        rule = _RULES[name]
        if not rule.holds(value):
            owner = type(estimator).__name__
            raise ValueError(
                f"`{name}` of {owner} must be {rule.text}, got {value!r}; {rule.remedy}"
            )


def check_count(estimator: Any, n: int) -> None:
    """Raise ValueError when there are more clusters than samples."""
    if estimator.n_clusters > n:
        raise ValueError(
            f"n_clusters={estimator.n_clusters} of {type(estimator).__name__} must be at most "
            f"n_samples={n}; take fewer clusters"
        )
