"""Read arrays of vectors or images from files. Nothing is ever unpickled."""

from __future__ import annotations

import json
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unbend.tables import near_names

__all__ = ["ARRAY_SUFFIXES", "check_input_array", "read_array"]

ARRAY_SUFFIXES = (".npy", ".npz", ".safetensors")
_USUAL_NAMES = ("X", "embeddings", "features")
# Raised by NumPy and zipfile on truncated headers, passwords and unsupported compression.
_DAMAGE = (
    EOFError, zipfile.BadZipFile, json.JSONDecodeError, UnicodeDecodeError, SyntaxError,
    tokenize.TokenError, RuntimeError, zlib.error, struct.error, KeyError, OverflowError,
)  # fmt: skip
_SAFETENSORS = {
    "F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "I16": "<i2",
    "I8": "i1", "U64": "<u8", "U32": "<u4", "U16": "<u2", "U8": "u1", "BOOL": "?",
}  # fmt: skip


def read_array(path: Path, key: str | None = None) -> NDArray[Any]:
    """Read the array of a file, memory-mapped where the format allows it.

    ``.npy`` and ``.safetensors`` stay on disk (except bfloat16, which NumPy lacks and which
    becomes float32); ``.npz`` is read into memory.

    Parameters
    ----------
    key : str, optional
        Which array or tensor; needed when there are several.
    """
    kind = path.suffix.lower()
    if kind == ".npy" and key is not None:
        raise ValueError(f"{str(path)!r} holds a single unnamed array; leave out ':{key}'")
    try:
        if kind == ".npy":
            return _read_npy(path)
        return _read_npz(path, key) if kind == ".npz" else _read_safetensors(path, key)
    except _DAMAGE as error:
        reason = error.args[0] if error.args else error
        raise ValueError(
            f"{str(path)!r} is damaged or not a valid {kind} file ({reason})"
        ) from error


def _read_npy(path: Path) -> NDArray[Any]:
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except ValueError as error:
        with path.open("rb") as file:  # NumPy treats a file without magic as a pickle
            own = file.read(6) == b"\x93NUMPY"
        if own and ("Python objects" in str(error) or "pickle" in str(error).lower()):
            raise ValueError(_no_objects(path)) from error
        reason = error if own else "it does not begin as one"
        raise ValueError(f"{str(path)!r} is damaged or not a valid .npy file ({reason})") from error
    if not isinstance(array, np.ndarray):
        raise ValueError(f"{str(path)!r} is an archive of arrays; rename it to .npz")
    return array


def _read_npz(path: Path, key: str | None) -> NDArray[Any]:
    with zipfile.ZipFile(path) as archive:
        names = [name[:-4] for name in archive.namelist() if name.endswith(".npy")]
    chosen = _choose(path, names, key, "arrays")
    with np.load(path, allow_pickle=False) as arrays:
        try:
            return np.asarray(arrays[chosen])
        except ValueError as error:
            if "Object arrays" not in str(error):
                raise ValueError(f"{str(path)!r} is damaged ({error})") from error
            raise ValueError(_no_objects(path)) from error


def _read_safetensors(path: Path, key: str | None) -> NDArray[Any]:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="numpy") as file:  # checks the header and the offsets
            names = list(file.keys())
    except SafetensorError as error:
        raise ValueError(
            f"{str(path)!r} is damaged or not a valid .safetensors file ({error})"
        ) from error
    chosen = _choose(path, names, key, "tensors")
    with open(path, "rb") as raw:
        length = int.from_bytes(raw.read(8), "little")
        entry = json.loads(raw.read(length))[chosen]
    shape, offset = tuple(entry["shape"]), 8 + length + entry["data_offsets"][0]
    half = entry["dtype"] == "BF16"
    code = "<u2" if half else _SAFETENSORS.get(entry["dtype"])
    if code is None:
        raise ValueError(f"{chosen!r} of {str(path)!r} is {entry['dtype']}; store it as float32")
    if 0 in shape:
        return np.zeros(shape, code)
    mapped = np.memmap(path, dtype=code, mode="r", offset=offset, shape=shape)
    # A bfloat16 is the upper half of a float32.
    return (mapped.astype("<u4") << 16).view("<f4") if half else mapped


def _choose(path: Path, names: Sequence[str], key: str | None, what: str) -> str:
    if key is not None:
        if key in names:
            return key
        raise ValueError(f"{str(path)!r} has no {key!r}; {near_names(key, names)}")
    if len(names) == 1:
        return names[0]
    usual = [name for name in _USUAL_NAMES if name in names]
    if len(usual) == 1:
        return usual[0]
    if not names:
        raise ValueError(f"{str(path)!r} holds no {what}; store one called 'X'")
    raise ValueError(
        f"{str(path)!r} holds several {what}: {', '.join(names)}; "
        f"choose one with '{path.name}:{(usual or list(names))[0]}'"
    )


def _no_objects(path: Path) -> str:
    return (
        f"{str(path)!r} holds Python objects, which are never unpickled; "
        "store numbers, e.g. np.save(path, X.astype('float32'))"
    )


def check_input_array(X: NDArray[Any], what: str) -> NDArray[Any]:
    """Check the user's samples and return an array that the rest of unbend can use.

    Two dimensions are vectors, three images (n, h, w), four images (n, c, h, w); channels that
    come last are moved without a copy. Integers and float16 stay as they are, memory-mapped if
    they were. Non-native byte orders, bool and long double are converted in memory. Rows with NaN
    or infinity are left to the caller.
    """
    if X.dtype.kind not in "biuf":
        raise ValueError(f"{what} must hold real numbers, got dtype {X.dtype}; convert to float32")
    if X.ndim not in (2, 3, 4):
        raise ValueError(
            f"{what} must have 2 dimensions (vectors), or 3 or 4 (images), got shape {X.shape}; "
            "one row per sample"
        )
    if 0 in X.shape:
        empty = "rows" if len(X) == 0 else "columns" if X.ndim == 2 else "pixels"
        raise ValueError(f"{what} has no {empty} (shape {X.shape}); give at least one")
    X = _channels_first(X, what) if X.ndim == 4 else X
    return _native(X)


def _channels_first(X: NDArray[Any], what: str) -> NDArray[Any]:
    if X.shape[1] in (1, 3):
        return X
    if X.shape[3] in (1, 3):
        return X.transpose(0, 3, 1, 2)
    raise ValueError(
        f"{what} must have 1 or 3 channels, got shape {X.shape}; convert to gray or RGB"
    )


def _native(X: NDArray[Any]) -> NDArray[Any]:
    dtype = X.dtype.newbyteorder("=")
    if dtype == np.bool_:
        dtype = np.dtype(np.uint8 if X.ndim > 2 else np.float32)
    elif dtype.kind == "f" and dtype.itemsize > 8:
        dtype = np.dtype(np.float64)
    # A converted memmap would still have the type memmap.
    return X if dtype == X.dtype else np.asarray(X).astype(dtype)
