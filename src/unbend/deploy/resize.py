"""Resizing to and from fixed sizes as matrix products, which every ONNX runtime computes alike.

ONNX has an operator for it, but its results differ from torch's in the last bits of a float and by
whole grey levels for bytes. A network sees such differences.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from unbend.networks.encoders.preprocess import Preprocessing

__all__ = ["Resize"]

_BITS, _MOST = 15, 22  # of torch's integer weights


class Resize(nn.Module):
    """``Preprocessing.resize`` for bytes of one size.

    Parameters
    ----------
    preprocess : Preprocessing
    size : tuple of int
        Height and width of the images that come in.
    """

    rows: Tensor
    columns: Tensor

    def __init__(self, preprocess: Preprocessing, size: tuple[int, int]) -> None:
        super().__init__()
        target, window = preprocess._target(*size)
        larger = target[0] * target[1] > size[0] * size[1]
        self.as_bytes = not larger and preprocess.interpolation != "nearest"
        self.on_bytes = self.as_bytes or preprocess.interpolation == "nearest"
        dtype = torch.float64 if self.as_bytes else torch.float32
        scales = []
        for axis, name in enumerate(("rows", "columns")):
            W = _weights(size[axis], target[axis], preprocess.interpolation, dtype)
            scales.append(_scale(W))
            W = _integers(W, scales[-1]) if self.as_bytes else W
            start = (target[axis] - window[axis]) // 2
            self.register_buffer(name, W[start : start + window[axis]])
        self.scales = tuple(scales)

    def forward(self, x: Tensor) -> Tensor:
        """Bytes (b, c, h, w) to floats: from 0 to 255 if ``on_bytes``, otherwise from 0 to 1."""
        if self.as_bytes:
            out = _rounded(x.double() @ self.columns.T, self.scales[1])
            return _rounded(self.rows @ out, self.scales[0]).float()
        if self.on_bytes:
            return self.rows @ (x.float() @ self.columns.T)
        return (self.rows @ ((x.float() / 255) @ self.columns.T)).clamp(0, 1)


def _rounded(sums: Tensor, scale: int) -> Tensor:
    """Sums of integer weights times bytes, as bytes again."""
    return torch.floor((sums + scale // 2) / scale).clamp(0, 255)


def _weights(n_in: int, n_out: int, mode: str, dtype: torch.dtype) -> Tensor:
    """The matrix (n_out, n_in) of a resize along one side: what torch makes of the identity."""
    eye = torch.eye(n_in, dtype=dtype)[None, None]
    if n_in == n_out:
        return eye[0, 0]
    if mode == "nearest":
        return F.interpolate(eye, (n_out, n_in), mode="nearest-exact")[0, 0]
    return F.interpolate(eye, (n_out, n_in), mode=mode, antialias=True, align_corners=False)[0, 0]


def _scale(W: Tensor) -> int:
    """The power of two with which torch turns weights into 16-bit integers."""
    bits = 0
    while bits < _MOST and int(0.5 + float(W.max()) * 2 ** (bits + 1)) < 2**_BITS:
        bits += 1
    return int(2**bits)


def _integers(W: Tensor, scale: int) -> Tensor:
    return torch.trunc(W * scale + torch.full_like(W, 0.5).copysign(W))
