"""Peer methods with scikit-learn's interface: ``fit(X)``, then ``labels_``.

``METHODS`` maps the benchmark's names to methods. Calling a method with ``n_clusters`` and
``random_state`` returns an estimator. Each peer is one file in this package, with a
:func:`~unbend.baselines.registry.peer` decorator on its class. Modules are imported on first use.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pkgutil import walk_packages
from types import ModuleType
from typing import Any


@cache
def _modules() -> list[ModuleType]:
    return [import_module(found.name) for found in walk_packages(__path__, f"{__name__}.")]


def __getattr__(name: str) -> Any:
    if name.startswith("_"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    modules = _modules()
    if name == "METHODS":
        from unbend.baselines.registry import METHODS

        return dict(sorted(METHODS.items(), key=lambda item: item[1].year))
    for module in modules:
        if name in getattr(module, "__all__", ()):
            return getattr(module, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
