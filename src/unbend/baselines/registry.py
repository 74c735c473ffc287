"""The registry of peers by benchmark name; each peer registers itself in its own file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

__all__ = ["METHODS", "Method", "peer"]

C = TypeVar("C", bound=type[Any])


@dataclass(frozen=True)
class Method:
    """A named peer: its class, a summary, and parameters that differ from the defaults.

    ``takes`` is "vectors" (images are flattened) or "images" (images and vectors).
    """

    cls: type[Any]
    summary: str
    year: int
    params: dict[str, Any]
    takes: str = "vectors"

    def __call__(self, n_clusters: int, random_state: int | None = None, **changes: Any) -> Any:
        """The unfitted estimator; ``changes`` are further parameters."""
        return self.cls(n_clusters, random_state=random_state, **{**self.params, **changes})


METHODS: dict[str, Method] = {}


def peer(
    name: str, summary: str, *, year: int, takes: str = "vectors", **params: Any
) -> Callable[[C], C]:
    """Register a class under its name in ``unbend benchmark``; tables are sorted by year."""

    def enter(cls: C) -> C:
        METHODS[name] = Method(cls, summary, year, params, takes)
        return cls

    return enter
