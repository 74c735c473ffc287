"""Models of torchvision and timm, if these can be imported."""

from __future__ import annotations

import math
from dataclasses import replace
from importlib import import_module
from typing import Any

from torch import nn

from unbend.disk.tensors import hash_tensors
from unbend.networks.encoders.encoder import Encoder
from unbend.networks.encoders.preprocess import Preprocessing

__all__ = ["load_timm", "load_torchvision"]

_CLASSIFIERS = ("fc", "classifier", "head", "heads")  # torchvision's names for the last layer


def load_torchvision(name: str, *, resolution: int | None = None, **options: Any) -> Encoder:
    """A torchvision classifier with its default weights, without its last layer."""
    models = _import("torchvision.models", "torchvision", name)
    try:
        weights = models.get_model_weights(name).DEFAULT
        network = models.get_model(name, weights=weights)
    except ValueError as error:
        raise ValueError(f"torchvision has no model {name!r}: {error}") from error
    last = next((layer for layer in _CLASSIFIERS if hasattr(network, layer)), None)
    if last is None:
        raise ValueError(f"torchvision's {name!r} is not a classifier; take one such as resnet50")
    setattr(network, last, nn.Identity())
    recipe = weights.transforms()
    side, short = _first(recipe.crop_size), _first(recipe.resize_size)
    mode = getattr(recipe.interpolation, "value", str(recipe.interpolation))
    preprocess = Preprocessing(
        (side, side), tuple(recipe.mean), tuple(recipe.std), mode, min(1.0, side / short)
    )
    return _encoder(f"torchvision:{name}", network, preprocess, resolution, options)


def load_timm(name: str, *, resolution: int | None = None, **options: Any) -> Encoder:
    """A pre-trained timm model without its classifier, pooled as timm does."""
    timm = _import("timm", "timm", name)
    data = _import("timm.data", "timm", name)
    try:
        network = timm.create_model(name, pretrained=True, num_classes=0)
    except RuntimeError as error:
        raise ValueError(f"timm has no pre-trained model {name!r}: {error}") from error
    recipe = data.resolve_data_config({}, model=network)
    height, width = recipe["input_size"][1:]
    preprocess = Preprocessing(
        (height, width),
        tuple(recipe["mean"]),
        tuple(recipe["std"]),
        recipe["interpolation"],
        float(recipe.get("crop_pct") or 1.0),
    )
    return _encoder(f"timm:{name}", network, preprocess, resolution, options)


def _encoder(
    name: str,
    network: nn.Module,
    preprocess: Preprocessing,
    resolution: int | None,
    options: dict[str, Any],
) -> Encoder:
    if resolution is not None:
        preprocess = replace(preprocess, size=(resolution, resolution))
    identity = hash_tensors(network.state_dict(), name, preprocess.to_json())
    return Encoder(name, network, preprocess, identity, **options)


def _import(module: str, library: str, name: str) -> Any:
    try:
        return import_module(module)
    except (
        ImportError,
        RuntimeError,
        AttributeError,
    ) as error:  # built for another torch
        first = (str(error).splitlines() or [type(error).__name__])[0]
        raise ImportError(
            f"encoder '{library}:{name}' needs {library}, which cannot be imported ({first}); "
            f"pip install {library}"
        ) from error


def _first(sides: Any) -> int:
    return int(sides[0]) if isinstance(sides, (list, tuple)) else math.floor(sides)
