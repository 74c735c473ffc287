"""Backbones saved by ``unbend pretrain`` or :meth:`MLC.save`."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors.torch import save
from torch import Tensor

from unbend.disk import atomic_write
from unbend.disk.tensors import hash_tensors, read_tensors
from unbend.knobs import NetworkConfig
from unbend.networks.backbones import build_backbone
from unbend.networks.encoders.encoder import Encoder
from unbend.networks.encoders.folding import fold_batchnorm
from unbend.networks.encoders.preprocess import Preprocessing
from unbend.networks.network import Network
from unbend.rules import check_rule

__all__ = [
    "SavedBackbone",
    "is_saved_encoder",
    "load_saved_encoder",
    "read_saved_encoder",
    "save_encoder",
]

FORMAT, VERSION = "unbend-encoder", 1
_TENSORS, _VALUES = "encoder.safetensors", "encoder.json"
_MODEL_TENSORS, _MODEL_VALUES = "model.safetensors", "model.json"


def is_saved_encoder(path: Path) -> bool:
    """Whether a directory holds a saved encoder or model of unbend."""
    return (path / _VALUES).is_file() or (path / _MODEL_VALUES).is_file()


def save_encoder(
    network: Network,
    path: str | Path,
    *,
    shape: tuple[int, ...] | None = None,
    config: NetworkConfig | None = None,
    scale: tuple[float, float] = (0.0, 1.0),
) -> None:
    """Save the backbone of an image network as ``encoder.safetensors`` and ``encoder.json``.

    Parameters
    ----------
    network : Network
        A trained network made by :func:`build_network`.
    path : path
        A directory; created if needed.
    shape, config : optional
        Shape of the samples and config of the network; by default those it was built with.
    scale : (float, float), default=(0, 1)
        Offset and range: the network was trained on ``(x - offset) / range`` of pixels x in
        [0, 1]. The default is that of photographs, whose bytes are divided by 255.
    """
    shape = tuple(shape or getattr(network, "shape", ()) or ())
    config = config or getattr(network, "config", None)
    if len(shape) != 3 or config is None:
        raise ValueError(
            f"only a network on images (c, h, w) can be saved as an encoder, got shape {shape}"
        )
    tensors = {
        f"backbone.{name}": tensor.detach().cpu().contiguous().clone()
        for name, tensor in network.backbone.state_dict().items()
    }
    mean, std = _pixels(network.mean, network.std, scale, shape[0])
    values = {
        "format": FORMAT,
        "version": VERSION,
        "backbone": asdict(config),
        "shape": list(shape),
        "mean": list(mean),
        "std": list(std),
        "fingerprint": hash_tensors(tensors),
    }
    folder = Path(path)
    folder.mkdir(parents=True, exist_ok=True)
    # encoder.json is written last: a directory without it does not count as an encoder.
    atomic_write(folder / _TENSORS, save(tensors))
    atomic_write(folder / _VALUES, json.dumps(values, indent=1) + "\n")


class SavedBackbone(NamedTuple):
    """Weights of a backbone, how it was built, and its normalisation of pixels in [0, 1]."""

    tensors: dict[str, Tensor]
    config: NetworkConfig
    shape: tuple[int, ...]
    mean: tuple[float, ...]
    std: tuple[float, ...]


def read_saved_encoder(path: str | Path) -> SavedBackbone:
    """Read the backbone of a saved encoder, for example to train it further."""
    folder = Path(path).expanduser()
    if not is_saved_encoder(folder):
        raise ValueError(f"{str(path)!r} holds no encoder: encoder.json is missing")
    read = _read_encoder if (folder / _VALUES).is_file() else _read_model
    return SavedBackbone(*read(folder))


def load_saved_encoder(
    path: str | Path, *, resolution: int | None = None, **options: Any
) -> Encoder:
    """Load a saved backbone as an encoder, at the image size it was trained on."""
    folder = Path(path).expanduser()
    own = (folder / _VALUES).is_file()
    tensors, config, shape, mean, std = (_read_encoder if own else _read_model)(folder)
    if len(shape) != 3:
        raise ValueError(
            f"{str(path)!r} is a model of vectors of width {shape[0]}; an encoder must be one of "
            "images"
        )
    if resolution is not None and [resolution] * 2 != list(shape[1:]):
        raise ValueError(
            f"`resolution` of {str(path)!r} is {tuple(shape[1:])}, the size it was trained on, "
            f"got {resolution}; leave it out"
        )
    with torch.random.fork_rng(devices=[]):
        backbone = build_backbone(tuple(shape), config)
    try:
        backbone.load_state_dict(tensors)
    except RuntimeError as error:
        raise ValueError(f"{str(path)!r} does not fit its own description: {error}") from error
    preprocess = Preprocessing((shape[1], shape[2]), mean, std, crop=None)
    identity = (json.dumps(asdict(config), sort_keys=True), preprocess.to_json())
    return Encoder(
        str(path),
        fold_batchnorm(backbone),
        preprocess,
        hash_tensors(tensors, *identity),
        **options,
    )


_Parts = tuple[
    dict[str, Tensor], NetworkConfig, tuple[int, ...], tuple[float, ...], tuple[float, ...]
]


def _read_encoder(folder: Path) -> _Parts:
    values = _json(folder / _VALUES)
    if values.get("format") != FORMAT or values.get("version") != VERSION:
        raise ValueError(
            f"{str(folder)!r} has format {values.get('format')!r} version "
            f"{values.get('version')!r}; this version reads {FORMAT!r} {VERSION}"
        )
    tensors = _safetensors(folder / _TENSORS)
    if hash_tensors(tensors) != values.get("fingerprint"):
        raise ValueError(
            f"{str(folder)!r} holds weights that do not belong to its encoder.json; save it again"
        )
    try:
        config = _config(values["backbone"], folder)
        shape = _sides(values["shape"])
        mean, std = (tuple(float(v) for v in values[key]) for key in ("mean", "std"))
        scaled = all(map(math.isfinite, (*mean, *std))) and all(std)
        if not scaled or {len(mean), len(std)} - {1, shape[0]}:
            raise ValueError(f"mean {mean} and std {std} scale no pixels")
    except (LookupError, TypeError, ValueError, OverflowError) as error:
        raise ValueError(
            f"{str(folder / _VALUES)!r} is damaged ({error}); save it again"
        ) from error
    return _without(tensors, "backbone."), config, shape, mean, std


def _read_model(folder: Path) -> _Parts:
    values = _json(folder / _MODEL_VALUES)
    try:
        shape = _sides(values["scaling"]["shape"])
        unit = 255.0 if values["scaling"]["dtype"] == "uint8" else 1.0
        scale = (values["scaling"]["offset"] / unit, values["scaling"]["scale"] / unit)
        config = _config(values["config"]["network"], folder)
    except (LookupError, TypeError, OverflowError) as error:
        raise ValueError(f"{str(folder)!r} is not a saved model: {error} is missing") from error
    tensors = _safetensors(folder / _MODEL_TENSORS)
    network = _without(tensors, "network.")
    if len(shape) != 3:
        return {}, config, shape, (), ()
    if not {"mean", "std"} <= network.keys():
        raise ValueError(f"{str(folder)!r} is not a saved model: its weights lack mean or std")
    mean, std = _pixels(network["mean"], network["std"], scale, shape[0])
    return _without(network, "backbone."), config, shape, mean, std


def _pixels(
    mean: Tensor, std: Tensor, scale: tuple[float, float], channels: int
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Convert a normalisation of scaled pixels into one of pixels in [0, 1]."""
    means = mean.detach().cpu().flatten().expand(channels).double() * scale[1] + scale[0]
    stds = std.detach().cpu().flatten().expand(channels).double() * scale[1]
    return tuple(means.tolist()), tuple(stds.tolist())


def _without(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {k[len(prefix) :]: v for k, v in tensors.items() if k.startswith(prefix)}


def _config(tree: dict[str, Any], folder: Path) -> NetworkConfig:
    unknown = set(tree) - {f.name for f in fields(NetworkConfig)}
    if unknown:
        raise ValueError(
            f"{str(folder)!r} was written by another version: unknown {sorted(unknown)[0]!r}"
        )
    config = NetworkConfig(**tree)
    for knob in fields(config):
        if "rule" in knob.metadata:  # sizes from others, before memory is reserved for them
            check_rule(knob.name, getattr(config, knob.name), knob.metadata["rule"])
    return config


def _sides(values: Any) -> tuple[int, ...]:
    """Width of vectors, or channels and sides of images, within reason."""
    shape = tuple(values)
    if len(shape) not in (1, 3) or not all(type(s) is int and 0 < s <= 2**24 for s in shape):
        raise ValueError(f"no samples have shape {shape}")
    if len(shape) == 3 and max(shape) > 4096:
        raise ValueError(f"no images have shape {shape}")
    return shape


def _json(path: Path) -> dict[str, Any]:
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{str(path)!r} is damaged: {error}") from error
    if not isinstance(values, dict):
        raise ValueError(f"{str(path)!r} is damaged: its JSON is not an object")
    return values


def _safetensors(path: Path) -> dict[str, Tensor]:
    if not path.is_file():
        raise ValueError(f"{str(path.parent)!r} is not an encoder: {path.name} is missing")
    return read_tensors(path)
