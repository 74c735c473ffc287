"""A model on disk: ``model.safetensors`` and ``model.json``, never pickle."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save
from torch import Tensor

from unbend.disk import atomic_directory, atomic_write, to_json
from unbend.disk.tensors import read_tensors

__all__ = ["FORMAT", "read_model", "write_model"]

FORMAT = 1
_TENSORS, _VALUES = "model.safetensors", "model.json"


def write_model(path: str | Path, tensors: dict[str, Tensor], values: dict[str, Any]) -> None:
    """Write a model directory atomically; replace an older model at the same path.

    Refuses to replace a directory that holds anything other than a model.
    """
    path = Path(path)
    if path.exists():
        if not path.is_dir():
            raise ValueError(
                f"cannot save a model at {str(path)!r}: it is a file; name a directory"
            )
        foreign = {p.name for p in path.iterdir()} - {_TENSORS, _VALUES}
        if foreign:
            raise ValueError(
                f"cannot save a model at {str(path)!r}: it holds other files "
                f"({sorted(foreign)[0]!r}); name a new directory"
            )
    # Copy, because safetensors refuses tensors that share memory.
    tensors = {
        name: t.detach().cpu().clone(memory_format=torch.contiguous_format)
        for name, t in tensors.items()
    }
    text = to_json({"format": FORMAT, **values}, indent=1, allow_nan=False)
    with atomic_directory(path) as folder:
        atomic_write(folder / _TENSORS, save(tensors))
        atomic_write(folder / _VALUES, text)


def read_model(path: str | Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read a model directory; raise a ValueError that names the problem if it is invalid."""
    path = Path(path)
    for name in (_TENSORS, _VALUES):
        if not (path / name).is_file():
            raise ValueError(f"{str(path)!r} is not a saved model: {name} is missing")
    try:
        values = json.loads((path / _VALUES).read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"{str(path / _VALUES)!r} is damaged: {error}") from error
    if not isinstance(values, dict) or values.get("format") != FORMAT:
        found = values.get("format") if isinstance(values, dict) else None
        raise ValueError(
            f"{str(path)!r} has model format {found!r}, this version reads {FORMAT}; "
            "fit and save it again"
        )
    return read_tensors(path / _TENSORS), values
