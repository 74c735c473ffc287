"""The state of a run as plain data: capture it, restore it, split it into tensors and JSON."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

__all__ = ["capture", "pack", "put_back", "unpack"]


def capture(parts: Mapping[str, Any]) -> dict[str, Any]:
    """Copy the state of each part.

    A part is a Module, an optimiser, a ``torch.Generator``, or anything with ``state()`` and
    ``load_state(state)``.
    """
    return {name: _state(part) for name, part in parts.items()}


def put_back(parts: Mapping[str, Any], states: Mapping[str, Any]) -> None:
    """Restore every part to the state that :func:`capture` returned."""
    for name, part in parts.items():
        if isinstance(part, torch.Generator):
            part.set_state(states[name])
        elif hasattr(part, "load_state"):
            part.load_state(states[name])
        else:  # copy, because an optimiser would keep the tensors themselves
            part.load_state_dict(copy.deepcopy(states[name]))


def _state(part: Any) -> Any:
    if isinstance(part, torch.Generator):
        return part.get_state()
    if isinstance(part, nn.Module):
        return {k: v.detach().clone() for k, v in part.state_dict().items()}
    if hasattr(part, "load_state"):
        return part.state()
    return copy.deepcopy(part.state_dict())


def pack(tree: Any) -> tuple[dict[str, Tensor], Any]:
    """Split nested plain data into its tensors, by name, and a skeleton that JSON can hold."""
    tensors: dict[str, Tensor] = {}

    def walk(node: Any) -> Any:
        if isinstance(node, Tensor):
            name = str(len(tensors))
            # Remember the memory order: reductions in another order differ in the last digits.
            last = node.ndim == 4 and not node.is_contiguous()
            tensors[name] = node.detach().cpu().clone(memory_format=torch.contiguous_format)
            return {"tensor": name, "channels_last": last}
        if isinstance(node, dict):
            return {"dict": [[key, walk(value)] for key, value in node.items()]}
        if isinstance(node, (list, tuple)):
            return {type(node).__name__: [walk(value) for value in node]}
        if node is None or isinstance(node, (bool, int, float, str)):
            return node
        raise TypeError(f"the state of a run cannot hold a {type(node).__name__}: {node!r}")

    return tensors, walk(tree)


def unpack(tensors: Mapping[str, Tensor], skeleton: Any) -> Any:
    """Rebuild what :func:`pack` split."""
    if not isinstance(skeleton, dict):
        return skeleton
    if "tensor" in skeleton:
        tensor = tensors[skeleton["tensor"]]
        return tensor.to(memory_format=torch.channels_last) if skeleton["channels_last"] else tensor
    if "dict" in skeleton:
        return {key: unpack(tensors, value) for key, value in skeleton["dict"]}
    if "tuple" in skeleton:
        return tuple(unpack(tensors, value) for value in skeleton["tuple"])
    return [unpack(tensors, value) for value in skeleton["list"]]
