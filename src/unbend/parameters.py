"""One table of what each parameter of an estimator may be, and one for the settings behind it."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral, Real
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from unbend.config import JOINTS, PRESETS, Config

__all__ = ["check_config", "check_parameters", "seed_of"]


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


_VIEWS = ("auto", "neighbors", "cached", "live")
_METHODS = ("tcr", "simclr", "moco", "vicreg", "byol", "swav", "none")


def _is_directory(v: Any) -> bool:
    return isinstance(v, (str, Path)) and Path(v).expanduser().is_dir()


_PRETRAIN = _Rule(
    lambda v: (isinstance(v, str) and v in _METHODS) or _is_directory(v),
    "one of " + ", ".join(_METHODS) + " or the directory of an encoder",
    "try 'tcr'",
)

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
    "pretrain": _optional(_PRETRAIN),
    "pretrain_epochs": _optional(_Rule(_whole(0), "an integer >= 0", "try 60")),
    "epochs": _optional(_Rule(_whole(0), "an integer >= 0", "try 30")),
    "batch_size": _optional(_Rule(_whole(2), "an integer >= 2", "try 1024")),
    "eta": _optional(_Rule(_positive, "> 0", "try 0.175")),
    "eps_sq": _optional(_Rule(_positive, "> 0", "try 0.1")),
    "train_backbone": _optional(
        _Rule(lambda v: isinstance(v, (bool, np.bool_)), "True or False", "try False")
    ),
    "encoder": _optional(
        _Rule(
            lambda v: isinstance(v, (str, Path)) or callable(v) or hasattr(v, "encode"),
            "a name, a path, a callable or an Encoder",
            "try 'lite2'",
        )
    ),
    "views": _optional(_one_of(*_VIEWS)),
    "cache_dir": _optional(_Rule(lambda v: isinstance(v, (str, Path)), "a path", "try 'auto'")),
    "settings": _optional(
        _Rule(lambda v: isinstance(v, dict), "a dict", "try {'stage2.lr': 0.01}")
    ),
    "max_clusters": _optional(_Rule(_whole(3), "an integer >= 3", "leave it out")),
    "label_method": _one_of("auto", "dense", "blocks", "landmarks"),
    "device": _Rule(lambda v: isinstance(v, str), "a string", "try 'cpu'"),
    "precision": _one_of("32-true", "bf16-mixed", "16-mixed", "64-true"),
    "random_state": _optional(
        _Rule(
            lambda v: (_whole(0)(v) and v < 2**63) or isinstance(v, np.random.RandomState),
            "an integer >= 0 below 2**63, a RandomState or None",
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


_COUNT = _Rule(_whole(0), "an integer >= 0", "leave it out")
_SIZE = _Rule(_whole(1), "an integer >= 1", "leave it out")
_ABOVE_ZERO = _Rule(_positive, "> 0", "leave it out")
_NOT_NEGATIVE = _Rule(lambda v: v == 0 or _positive(v), ">= 0", "leave it out")
_SHARE = _Rule(lambda v: _NOT_NEGATIVE.holds(v) and v <= 1, "from 0 to 1", "leave it out")
_INNER_SHARE = _Rule(lambda v: _positive(v) and v < 1, "between 0 and 1", "leave it out")
_CONFIG_RULES: dict[str, _Rule] = {
    "views.n_views": _SIZE,
    "views.n_neighbors": _COUNT,
    "views.metric": _one_of("euclidean", "cosine"),
    "views.refresh": _COUNT,
    "views.noise": _NOT_NEGATIVE,
    "views.source": _one_of(*_VIEWS),
    "views.n_cached": _SIZE,
    "views.augmentation.flip": _SHARE,
    "views.augmentation.grayscale": _SHARE,
    "views.augmentation.jitter_probability": _SHARE,
    "views.augmentation.blur": _SHARE,
    "views.augmentation.noise": _NOT_NEGATIVE,
    "network.width": _SIZE,
    "network.depth": _COUNT,
    "network.dim": _SIZE,
    "network.head_width": _SIZE,
    "network.head_depth": _COUNT,
    "pretrain.method": _PRETRAIN,
    "pretrain.optimizer": _one_of("lars", "adam", "sgd"),
    "pretrain.head_steps": _COUNT,
    "pretrain.head_lr": _ABOVE_ZERO,
    "pretrain.simclr.temperature": _ABOVE_ZERO,
    "pretrain.simclr.hidden": _ABOVE_ZERO,
    "pretrain.simclr.dim": _SIZE,
    "pretrain.moco.temperature": _ABOVE_ZERO,
    "pretrain.moco.queue": _SIZE,
    "pretrain.moco.ema": _SHARE,
    "pretrain.moco.hidden": _ABOVE_ZERO,
    "pretrain.moco.dim": _SIZE,
    "pretrain.vicreg.invariance": _NOT_NEGATIVE,
    "pretrain.vicreg.variance": _NOT_NEGATIVE,
    "pretrain.vicreg.covariance": _NOT_NEGATIVE,
    "pretrain.vicreg.hidden": _ABOVE_ZERO,
    "pretrain.vicreg.dim": _COUNT,
    "pretrain.byol.ema": _SHARE,
    "pretrain.byol.hidden": _ABOVE_ZERO,
    "pretrain.byol.dim": _SIZE,
    "pretrain.swav.temperature": _ABOVE_ZERO,
    "pretrain.swav.eps": _ABOVE_ZERO,
    "pretrain.swav.iterations": _SIZE,
    "pretrain.swav.prototypes": _Rule(_whole(2), "an integer >= 2", "leave it out"),
    "pretrain.swav.frozen": _SHARE,
    "pretrain.swav.small_crops": _COUNT,
    "pretrain.swav.small_size": _INNER_SHARE,
    "pretrain.swav.hidden": _ABOVE_ZERO,
    "pretrain.swav.dim": _SIZE,
    "pretrain.warmup": _SHARE,
    "pretrain.invariance": _NOT_NEGATIVE,
    "stage2.eta": _ABOVE_ZERO,
    "stage2.n_anchors": _COUNT,
    "stage2.join": _one_of(*JOINTS),
    "stage2.tol": _ABOVE_ZERO,
} | {
    f"{stage}.{name}": rule
    for stage in ("pretrain", "stage2")
    for name, rule in {
        "eps_sq": _ABOVE_ZERO,
        "epochs": _COUNT,
        "min_steps": _COUNT,
        "max_steps": _COUNT,
        "batch_size": _SIZE,
        "lr": _ABOVE_ZERO,
        "momentum": _SHARE,
        "weight_decay": _NOT_NEGATIVE,
        "accumulate": _SIZE,
        "max_norm": _NOT_NEGATIVE,
    }.items()
}


def check_config(config: Config) -> None:
    """Raise ValueError for the first setting that breaks its rule."""
    for name, rule in _CONFIG_RULES.items():
        value: Any = config
        for part in name.split("."):
            value = getattr(value, part)
        if not rule.holds(value):
            raise ValueError(f"setting {name!r} must be {rule.text}, got {value!r}; {rule.remedy}")
    if config.pretrain.method != "none" and config.views.n_views < 2:
        raise ValueError(
            f"stage 1 compares views of a sample and needs n_views >= 2, got "
            f"{config.views.n_views}; take 2, or pretrain='none'"
        )


def seed_of(random_state: Any) -> int:
    """The seed that a ``random_state`` of scikit-learn's kinds stands for; None draws one."""
    if random_state is None:
        return int(np.random.default_rng().integers(2**31))
    if isinstance(random_state, (int, np.integer)):
        return int(random_state)
    return int(random_state.randint(2**31 - 1))
