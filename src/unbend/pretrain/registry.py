"""The methods by name, found in the folder ``methods``."""

from __future__ import annotations

from dataclasses import field, make_dataclass, replace
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

import torch

from unbend.knobs import Stage1Config
from unbend.networks import Network
from unbend.pretrain import methods
from unbend.pretrain.method import Stage1Method
from unbend.rules import Rule, knob

__all__ = ["METHODS", "PretrainConfig", "build_method", "fit_to_data", "is_path"]


def _method_in(name: str) -> type[Stage1Method]:
    """The method that a file defines."""
    module = import_module(f"{methods.__name__}.{name}")
    classes = (
        c for c in vars(module).values() if isinstance(c, type) and issubclass(c, Stage1Method)
    )
    return next(c for c in classes if vars(c).get("name") == name)


_NAMES = sorted(module.name for module in iter_modules(methods.__path__))
METHODS: dict[str, type[Stage1Method]] = {  # the paper's method first
    name: _method_in(name) for name in sorted(_NAMES, key=lambda name: name != "tcr")
}


def is_path(method: str) -> bool:
    """Whether ``method`` names a directory rather than a method."""
    return method not in METHODS and Path(method).expanduser().is_dir()


def _is_method(value: Any) -> bool:
    known = isinstance(value, (str, Path)) and str(value) in (*METHODS, "none")
    return known or (isinstance(value, (str, Path)) and is_path(str(value)))


_METHOD = Rule(
    _is_method, f"one of {', '.join(METHODS)}, none or the directory of an encoder", "try 'tcr'"
)

#: Stage 1: settings shared by all methods, and those of each method under its name.
PretrainConfig: Any = make_dataclass(
    "PretrainConfig",
    [
        ("method", str, knob("tcr", _METHOD)),
        *(
            (name, method.Settings, field(default_factory=method.Settings))
            for name, method in METHODS.items()
            if method.Settings is not None
        ),
    ],
    bases=(Stage1Config,),
    namespace={"__doc__": Stage1Config.__doc__, "__module__": __name__},
    frozen=True,
)


def build_method(
    network: Network, config: Stage1Config, total_steps: int, seed: int
) -> Stage1Method:
    """Build the method named in ``config``; its randomness comes from ``seed`` alone."""
    if config.method not in METHODS:
        raise ValueError(
            f"`pretrain.method` must be one of {', '.join(METHODS)}, none, got {config.method!r}"
        )
    device = network.mean.device
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)  # torch.manual_seed would reseed the GPUs too
        method = METHODS[config.method](network, config, total_steps)
    return method.to(device=device, dtype=next(network.parameters()).dtype)


def fit_to_data(config: Stage1Config, n: int) -> Stage1Config:
    """Adapt the settings of the method to the number of samples."""
    method = METHODS[config.method]
    if method.Settings is None:
        return config
    settings = method.for_samples(method.settings_in(config), n)
    return replace(config, **{method.name: settings})
