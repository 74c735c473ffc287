"""Validation rules shared by settings, the parameters of MLC and those of its peers.

The rule of a setting is stored in the metadata of its field::

    @dataclass(frozen=True)
    class MoCoConfig:
        queue: int = knob(4096, whole(1))
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from numbers import Integral, Real
from typing import Any, NamedTuple

__all__ = [
    "COPIES",
    "COUNT",
    "DEPTH",
    "FACTOR",
    "FLAG",
    "INNER_SHARE",
    "NOT_NEGATIVE",
    "POSITIVE",
    "SHARE",
    "SIZE",
    "WIDTH",
    "Rule",
    "above",
    "at_least",
    "between",
    "check_rule",
    "knob",
    "one_of",
    "optional",
    "span",
    "whole",
]


class Rule(NamedTuple):
    """A condition, its wording in messages, and the remedy if it fails."""

    holds: Callable[[Any], bool]
    text: str
    remedy: str = "leave it out"


def _is_real(value: Any) -> bool:
    number = isinstance(value, Real) and not isinstance(value, bool)
    try:
        return number and abs(float(value)) < float("inf")
    except OverflowError:  # a whole number with hundreds of digits
        return False


def whole(low: int, remedy: str = "leave it out", most: int | None = None) -> Rule:
    """An integer >= ``low``, and <= ``most`` where more would ask for absurd memory or time."""
    text = f"an integer >= {low}" if most is None else f"an integer from {low} to {most}"

    def holds(value: Any) -> bool:
        fits = _is_real(value) and isinstance(value, Integral) and int(value) >= low
        return fits and (most is None or int(value) <= most)

    return Rule(holds, text, remedy)


def above(low: float, remedy: str = "leave it out") -> Rule:
    """A finite number > ``low``."""
    return Rule(lambda v: _is_real(v) and v > low, f"> {low:g}", remedy)


def at_least(low: float, remedy: str = "leave it out") -> Rule:
    """A finite number >= ``low``."""
    return Rule(lambda v: _is_real(v) and v >= low, f">= {low:g}", remedy)


def span(low: float, most: float) -> Rule:
    """Two finite numbers in order, the first > ``low`` and the second at most ``most``."""
    return Rule(
        lambda v: len(v) == 2 and all(map(_is_real, v)) and low < v[0] <= v[1] <= most,
        f"two numbers [a, b] with {low:g} < a <= b" + (f" <= {most:g}" if most < 1e9 else ""),
    )


def between(low: float, high: float, remedy: str = "leave it out") -> Rule:
    """A number strictly between ``low`` and ``high``."""
    return Rule(lambda v: _is_real(v) and low < v < high, f"between {low:g} and {high:g}", remedy)


def one_of(*names: str) -> Rule:
    """One of these words; the message suggests the first."""
    text = "one of " + ", ".join(names)
    return Rule(lambda v: isinstance(v, str) and v in names, text, f"try {names[0]!r}")


def optional(rule: Rule) -> Rule:
    """The same rule, but None is also allowed."""
    return Rule(lambda v: v is None or rule.holds(v), f"{rule.text} or None", rule.remedy)


COUNT, SIZE = whole(0), whole(1)
# A slip of the keyboard must not ask for terabytes
WIDTH, DEPTH, COPIES = whole(1, most=65_536), whole(0, most=100), whole(1, most=1000)
FACTOR = Rule(lambda v: _is_real(v) and 0 < v <= 64, "above 0, up to 64")
POSITIVE, NOT_NEGATIVE = above(0), at_least(0)
SHARE = Rule(lambda v: _is_real(v) and 0 <= v <= 1, "from 0 to 1")
INNER_SHARE = between(0, 1)
# NumPy's bool is not a subclass of bool.
FLAG = Rule(lambda v: type(v).__name__ in ("bool", "bool_"), "True or False", "try False")


def knob(default: Any, rule: Rule, *, example: Any = None) -> Any:
    """A field of a frozen dataclass with its rule; messages suggest ``example``."""
    example = default if example is None else example
    return field(default=default, metadata={"rule": rule, "example": example})


def check_rule(what: str, value: Any, rule: Rule, remedy: str | None = None) -> None:
    """Raise a ValueError with rule, value and remedy if the value breaks the rule."""
    if not rule.holds(value):
        raise ValueError(f"{what} must be {rule.text}, got {value!r}; {remedy or rule.remedy}")
