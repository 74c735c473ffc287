"""ResNet-18 checkpoints of solo-learn, SimCLR and MoCo, with every tensor accounted for."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from unbend.disk.tensors import hash_tensors
from unbend.networks.encoders.encoder import Encoder
from unbend.networks.encoders.folding import fold_batchnorm
from unbend.networks.encoders.preprocess import IMAGENET_MEAN, IMAGENET_STD, Preprocessing
from unbend.networks.resnet import ResNet18

__all__ = ["SUFFIXES", "load_checkpoint", "match_resnet18"]

SUFFIXES = (".ckpt", ".pth", ".pt", ".tar", ".safetensors")
_CIFAR_MEAN, _CIFAR_STD = (0.4914, 0.4822, 0.4465), (0.247, 0.243, 0.261)
_INSIDE = (
    "state_dict",
    "model_state_dict",
    "model",
    "net",
    "network",
)  # keys of weights
# Prefixes of the backbone, most specific first; a parallel wrapper may add "module." before them.
_PREFIXES = (
    "encoder_q.",
    "online_backbone.",
    "backbone.",
    "encoder.f.",
    "encoder.backbone.",
    "encoder.",
    "base_encoder.",
    "convnet.",
    "resnet.",
    "net.",
    "model.",
    "f.",
    "",
)
# Children of a Sequential around torchvision's ResNet, without and with max-pooling.
_NUMBERED = (
    ("conv1", "bn1", "relu", "layer1", "layer2", "layer3", "layer4", "avgpool"),
    ("conv1", "bn1", "relu", "maxpool", "layer1", "layer2", "layer3", "layer4", "avgpool"),
)
_HEADS = {
    "projector": r"(^|\.)(projector|projection|projection_head|proj|projection_mlp|g)\.",
    "predictor": r"(^|\.)(predictor|prediction_head|prediction_mlp)\.",
    "prototypes": r"(^|\.)prototypes?\.",
    "queue": r"(^|\.)(queue\w*|\w+_queue)$",
    "momentum copy": r"(^|\.)(momentum_\w+|encoder_k|target_\w+|teacher\w*|ema\w*)\.",
    "classifier": r"(^|\.)(fc|classifier|online_classifier|linear|head|heads)\.",
}


class Match(NamedTuple):
    """Weights under the names of our ResNet-18, and how many tensors belonged to which head."""

    weights: dict[str, Tensor]
    set_aside: dict[str, int]
    prefix: str


def load_checkpoint(
    path: str | Path,
    *,
    resolution: int | None = None,
    mean: tuple[float, ...] | None = None,
    std: tuple[float, ...] | None = None,
    stem_padding: int | None = None,
    **options: Any,
) -> Encoder:
    """ResNet-18 from a ``.ckpt``, ``.pth`` or ``.safetensors`` file, without its heads.

    A checkpoint does not say how its images were prepared. A 3×3 stem is taken to mean CIFAR
    (32 pixels, CIFAR-10's mean and deviation), a 7×7 stem ImageNet (224 pixels). solo-learn pads
    its 3×3 stem by 2, others by 1. ``stem_padding``, ``mean``, ``std`` and ``resolution``
    override this.
    """
    path = Path(path).expanduser()
    contents = _read(path)
    match = match_resnet18(_state_dict(contents, path), str(path))
    stem = match.weights["conv1.weight"]
    small = stem.shape[-1] == 3
    with torch.random.fork_rng(devices=[]):
        network = ResNet18(stem.shape[1], stem.shape[0], small_images=small)
    _fill(network, match, str(path))
    if not small and stem_padding is not None:
        raise ValueError(f"`stem_padding` is for 3x3 stems; that of {str(path)!r} is 7x7")
    if small:
        lightning = isinstance(contents, dict) and "pytorch-lightning_version" in contents
        padding = stem_padding if stem_padding is not None else 2 if lightning else 1
        network.conv1.padding = (padding, padding)
    side = resolution or (32 if small else 224)
    preprocess = Preprocessing(
        (side, side),
        mean or _gray(_CIFAR_MEAN if small else IMAGENET_MEAN, stem.shape[1]),
        std or _gray(_CIFAR_STD if small else IMAGENET_STD, stem.shape[1]),
        crop=1.0 if small else 224 / 256,
    )
    identity = (f"resnet18 padding {network.conv1.padding}", preprocess.to_json())
    return Encoder(
        str(path),
        fold_batchnorm(network),
        preprocess,
        hash_tensors(network.state_dict(), *identity),
        details={
            "tensors": len(match.weights),
            "set_aside": match.set_aside,
            "prefix": match.prefix,
            "stem": f"{stem.shape[-1]}x{stem.shape[-1]}",
            "stem_padding": int(network.conv1.padding[0]) if small else None,
        },
        **options,
    )


def match_resnet18(state: Mapping[str, Tensor], where: str) -> Match:
    """Sort every tensor of a checkpoint into the backbone or a known head.

    Raises a ValueError that lists tensors that are neither, or that are missing.
    """
    if not state:
        raise ValueError(f"{where!r} holds no tensors")
    prefix = _backbone_prefix(state)
    if prefix is None:
        raise ValueError(
            f"{where!r} holds no ResNet-18: no tensor is called conv1.weight or 0.weight, with or "
            f"without a usual prefix; it has {_some(sorted(state))}"
        )
    weights: dict[str, Tensor] = {}
    set_aside: dict[str, int] = {}
    unknown: list[str] = []
    rename = _renaming(state, prefix)
    known = set(ResNet18(3, 1).state_dict())
    for key, tensor in state.items():
        name = rename(key[len(prefix) :]) if key.startswith(prefix) else None
        kind = _head(key)
        if name in known:
            weights[str(name)] = tensor
        elif kind is not None:
            set_aside[kind] = set_aside.get(kind, 0) + 1
        else:
            unknown.append(key)
    if unknown:
        raise ValueError(
            f"{where!r} holds tensors that belong to no ResNet-18 and no known head: "
            f"{_some(unknown)}"
        )
    return Match(weights, set_aside, prefix)


def _backbone_prefix(state: Mapping[str, Tensor]) -> str | None:
    for prefix in _PREFIXES:
        for wrapper in ("", "module.", "model."):
            for stem in ("conv1.weight", "0.weight"):
                tensor = state.get(wrapper + prefix + stem)
                if tensor is not None and tensor.ndim == 4:
                    return wrapper + prefix
    return None


def _renaming(state: Mapping[str, Tensor], prefix: str) -> Any:
    """A function from the checkpoint's names, without the prefix, to torchvision's."""
    table: dict[str, str] = {}
    if f"{prefix}conv1.weight" not in state:
        pooled = not any(key.startswith(f"{prefix}3.") for key in state)
        table = {str(i): name for i, name in enumerate(_NUMBERED[pooled])}

    def rename(name: str) -> str:
        first, dot, rest = name.partition(".")
        return table.get(first, first) + dot + rest.replace("shortcut.", "downsample.")

    return rename


def _head(key: str) -> str | None:
    return next((kind for kind, pattern in _HEADS.items() if re.search(pattern, key)), None)


def _fill(network: ResNet18, match: Match, where: str) -> None:
    """Load, and raise if tensors are missing or misshapen; batch counters may be missing."""
    own = network.state_dict()
    counters = {key for key in own if key.endswith("num_batches_tracked")}
    missing = sorted(set(own) - set(match.weights) - counters)
    if missing:
        raise ValueError(f"{where!r} lacks {len(missing)} tensors of ResNet-18: {_some(missing)}")
    wrong = [
        f"{key} {tuple(tensor.shape)} instead of {tuple(own[key].shape)}"
        for key, tensor in match.weights.items()
        if tensor.shape != own[key].shape
    ]
    if wrong:
        raise ValueError(f"{where!r} has tensors of another shape than ResNet-18: {_some(wrong)}")
    network.load_state_dict({**{key: own[key] for key in counters}, **match.weights})


def _read(path: Path) -> Any:
    if not path.is_file():
        raise OSError(f"there is no checkpoint {str(path)!r}")
    try:
        if path.suffix == ".safetensors":
            return load_file(path)
        with torch.serialization.safe_globals([argparse.Namespace]):  # plain data
            return torch.load(path, map_location="cpu", weights_only=True)
    except (SafetensorError, RuntimeError, EOFError, KeyError, ValueError) as error:
        raise ValueError(f"{str(path)!r} is damaged or no checkpoint: {_line(error)}") from error
    except Exception as error:  # errors of pickle share no base class below Exception
        raise ValueError(
            f"{str(path)!r} cannot be read without running code in it ({_line(error)}); load it "
            "where you trust it and save its weights alone: "
            "torch.save({'state_dict': checkpoint['state_dict']}, 'weights.pth')"
        ) from error


def _state_dict(contents: Any, path: Path) -> dict[str, Tensor]:
    for tree in _candidates(contents):
        tensors = {key: value for key, value in tree.items() if isinstance(value, Tensor)}
        if tensors and all(isinstance(key, str) for key in tensors):
            return tensors
    raise ValueError(f"{str(path)!r} holds no state_dict of tensors; save the model's state_dict()")


def _candidates(contents: Any) -> Iterator[Mapping[Any, Any]]:
    if not isinstance(contents, Mapping):
        return
    for name in _INSIDE:
        if isinstance(contents.get(name), Mapping):
            yield contents[name]
    yield contents


def _gray(values: tuple[float, ...], channels: int) -> tuple[float, ...]:
    return values if channels == len(values) else (sum(values) / len(values),) * channels


def _line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")


def _some(names: list[str]) -> str:
    return ", ".join(names[:12]) + (f" and {len(names) - 12} more" if len(names) > 12 else "")
