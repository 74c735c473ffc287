"""Read weights from safetensors files and check their values."""

from __future__ import annotations

from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load
from torch import Tensor

__all__ = ["read_tensors"]


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Read tensors from an untrusted file; raise unless all are finite and real."""
    try:
        tensors = load(path.read_bytes())
    except SafetensorError as error:
        raise ValueError(f"{str(path)!r} is damaged: {error}") from error
    for name, tensor in tensors.items():
        if tensor.is_complex() or not bool(tensor.isfinite().all()):
            raise ValueError(
                f"{str(path)!r} is damaged: {name!r} holds numbers that are not finite or not "
                "real; fit and save it again"
            )
    return tensors
