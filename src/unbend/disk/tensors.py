"""Weights: read them from safetensors files, check their values, and hash them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load
from torch import Tensor

__all__ = ["hash_tensors", "read_tensors"]


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Read tensors from an untrusted file; raise unless all are finite and real."""
    try:
        tensors = load(path.read_bytes())
    except SafetensorError as error:
        raise ValueError(f"{str(path)!r} is damaged: {error}; fit and save it again") from error
    for name, tensor in tensors.items():
        if tensor.is_complex() or not bool(tensor.isfinite().all()):
            raise ValueError(
                f"{str(path)!r} is damaged: {name!r} holds numbers that are not finite or not "
                "real; fit and save it again"
            )
    return tensors


def hash_tensors(tensors: Mapping[str, Tensor], *identity: str) -> str:
    """Hash of named tensors and of descriptions of their use, 32 hex digits."""
    digest = hashlib.sha256()
    for text in identity:
        digest.update(f"{len(text)}:{text}".encode())
    for name in sorted(tensors):
        tensor = tensors[name].detach().cpu().contiguous()
        digest.update(f"{name}|{tensor.dtype}|{tuple(tensor.shape)}".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()[:32]
