"""Any function or module as an encoder."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from torch import nn

from unbend.disk.tensors import hash_tensors
from unbend.networks.encoders.encoder import Encoder
from unbend.networks.encoders.preprocess import Preprocessing

__all__ = ["load_callable"]


def load_callable(
    function: Callable[..., Any], *, resolution: int | None = None, **options: Any
) -> Encoder:
    """A callable from RGB images (b, 3, h, w), float in [0, 1], to vectors (b, d).

    A module is identified by its weights and structure. A function is identified only by its name
    and code, which is not enough to cache its embeddings. Give it an attribute ``fingerprint``, a
    string that changes whenever its results do, to have them cached.
    """
    size = None if resolution is None else (resolution, resolution)
    preprocess = Preprocessing(size, (0.0,) * 3, (1.0,) * 3)
    given = getattr(function, "fingerprint", None)
    cacheable = isinstance(given, str) or isinstance(function, nn.Module)
    if isinstance(given, str):
        identity = hash_tensors({}, given, preprocess.to_json())
    elif isinstance(function, nn.Module):
        identity = hash_tensors(function.state_dict(), repr(function), preprocess.to_json())
    else:
        code = getattr(function, "__code__", None)
        parts = (code.co_code.hex(), repr(code.co_names)) if code is not None else ()
        identity = hash_tensors({}, _name(function), *parts, preprocess.to_json())
    return Encoder(
        f"callable:{_name(function)}",
        copy.deepcopy(function) if isinstance(function, nn.Module) else function,  # it is frozen
        preprocess,
        identity,
        cacheable=cacheable,
        **options,
    )


def _name(function: Any) -> str:
    owner = function if hasattr(function, "__qualname__") else type(function)
    return f"{owner.__module__}.{owner.__qualname__}"
