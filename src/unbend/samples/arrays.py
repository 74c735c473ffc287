"""Convert arrays to scaled float tensors, and apply the same scaling to new samples."""

from __future__ import annotations

import math
import warnings
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unbend.exceptions import UnbendWarning

__all__ = ["Scaling", "as_array", "prepare"]


def as_array(X: Any, name: str = "X") -> NDArray[Any]:
    """Convert a torch tensor or array-like to a NumPy array of real numbers.

    Used for image input (three or four dimensions); scikit-learn's own validation handles two.
    """
    if isinstance(X, Tensor):
        X = X.detach().cpu()
        X = X.float() if X.dtype == torch.bfloat16 else X  # NumPy has no bfloat16
    array = np.asarray(X)
    if array.dtype.kind not in "biuf":
        raise ValueError(
            f"{name} must hold real numbers, got dtype {array.dtype}; convert it to float or uint8"
        )
    return array


@dataclass(frozen=True)
class Scaling:
    """Scaling of samples to roughly the unit range; learned in fit, reused in predict.

    Parameters
    ----------
    shape : tuple
        Shape of one sample: ``(p,)`` or ``(c, h, w)``.
    offset, scale : float
        Samples become ``(x - offset) / scale``. One pair of numbers per data set keeps the
        proportions of distances; the network itself centres the columns of vectors.
    dtype : str
        Type of number seen in fit: ``"uint8"`` images are divided by 255, others by their range.
    seen : tuple
        Shape of one sample as the network sees it, where that is another: images as vectors of
        their pixels, or such vectors as images.
    spread : float
        Divides vectors of pixels, so that they have the typical length of other vectors.
    """

    shape: tuple[int, ...]
    offset: float
    scale: float
    dtype: str
    seen: tuple[int, ...] = ()
    spread: float = 1.0

    @property
    def is_image(self) -> bool:
        """Whether samples are images (c, h, w)."""
        return len(self.shape) == 3

    @property
    def network_shape(self) -> tuple[int, ...]:
        """Shape of one sample as the network sees it."""
        return self.seen or self.shape

    def as_vectors(self, images: Tensor) -> tuple[Tensor, Scaling]:
        """The images that :meth:`apply` returned as vectors of pixels, and the scaling of those."""
        spread = float(images.double().var(0, correction=0).mean().sqrt())
        seen = (math.prod(self.shape),)
        scaling = replace(self, seen=seen, spread=spread if spread > 1e-6 else 1.0)
        return images.flatten(1) / scaling.spread, scaling

    def as_images(self, vectors: Tensor, side: int) -> tuple[Tensor, Scaling]:
        """The vectors that :meth:`apply` returned as square gray images from 0 to 1."""
        low, high = map(float, torch.aminmax(vectors))
        scaling = replace(
            self,
            offset=self.offset + low * self.scale,
            scale=(high - low) * self.scale,
            seen=(1, side, side),
        )
        return (vectors - low).div_(high - low).view(-1, 1, side, side), scaling

    def apply(self, X: NDArray[Any]) -> Tensor:
        """Scale samples of the same kind as those seen in fit."""
        X = _with_channels(X) if self.is_image else X
        if X.shape[1:] != self.shape:
            raise ValueError(
                f"X has samples of shape {X.shape[1:]}, but the model was fitted on {self.shape}"
            )
        if self.is_image and (str(X.dtype) == "uint8") != (self.dtype == "uint8"):
            raise ValueError(
                f"X has dtype {X.dtype}, but the model was fitted on {self.dtype}; "
                "pass images of the same kind"
            )
        # Shift wide types before casting to float32, which keeps only seven digits.
        wide = np.array(X, dtype=np.result_type(X.dtype, np.float32), order="C")
        values = torch.from_numpy(wide).sub_(self.offset).div_(self.scale).float()
        if not torch.isfinite(values).all():
            raise ValueError("X contains NaN, infinity or numbers too large; remove or repair them")
        low, high = torch.aminmax(values) if self.is_image and len(values) else (0, 1)
        if low < -1 or high > 2:
            warnings.warn(
                f"X has pixels from {X.min():g} to {X.max():g}, but the model was fitted on "
                f"{self.offset:g} to {self.offset + self.scale:g}; scale the images the same way",
                UnbendWarning,
                stacklevel=2,
            )
        values = values.div_(self.spread) if self.spread != 1 else values
        return values.view(len(values), *self.network_shape)

    def to_dict(self) -> dict[str, Any]:
        """Plain dict, ready for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, tree: dict[str, Any]) -> Scaling:
        """Inverse of :meth:`to_dict`."""
        shape, scale = tuple(int(side) for side in tree["shape"]), float(tree["scale"])
        seen, spread = tuple(int(side) for side in tree["seen"]), float(tree["spread"])
        possible = 0 < scale < float("inf") and 0 < spread < float("inf")
        if min(shape) < 1 or not possible or (seen and math.prod(seen) != math.prod(shape)):
            raise ValueError(f"a scaling cannot be {tree!r}")
        return cls(shape, float(tree["offset"]), scale, str(tree["dtype"]), seen, spread)


def prepare(X: NDArray[Any]) -> tuple[Tensor, Scaling]:
    """Learn the scaling of samples (n, p), (n, h, w) or (n, c, h, w) and apply it.

    >>> x, scaling = prepare(np.full((2, 4, 4), 255, dtype=np.uint8))
    >>> x.shape, float(x.max()), scaling.is_image
    (torch.Size([2, 1, 4, 4]), 1.0, True)
    """
    if X.ndim == 2:
        scaling = _vector_scaling(X)
    elif X.ndim in (3, 4):
        X = _with_channels(X)
        scaling = _image_scaling(X)
    else:
        raise ValueError(
            f"X must have 2 dimensions (vectors), or 3 or 4 (images), got shape {X.shape}; "
            "reshape your data"
        )
    return scaling.apply(X), scaling


def _vector_scaling(X: NDArray[Any]) -> Scaling:
    # One global scale, because a scale per column would change the neighbours. Divide by the peak
    # first: squares of numbers like 1e200 or 1e-200 overflow or underflow.
    peak = float(np.abs(X).max()) or 1.0
    unit = np.asarray(X, dtype=np.float64) / peak
    deviation = float(np.sqrt(unit.var(axis=0).mean()))
    constant = deviation <= 8 * np.finfo(np.float64).eps  # only rounding errors
    scale = 1.0 if constant else deviation * peak
    return Scaling((X.shape[1],), float(unit.mean()) * peak, scale, str(X.dtype))


def _image_scaling(X: NDArray[Any]) -> Scaling:
    if not np.isfinite(X).all():
        raise ValueError("X contains NaN or infinity; remove or repair those images")
    shape = tuple(int(s) for s in X.shape[1:])
    # Photographs are divided by 255 even if no pixel is white. Masks of 0 and 1 would then be
    # smaller than the noise of the augmentation, so such images are divided by their range.
    if X.dtype == np.uint8 and X.max() >= 64:
        return Scaling(shape, 0.0, 255.0, "uint8")
    low, high = float(X.min()), float(X.max())
    return Scaling(shape, low, high - low if high > low else 1.0, str(X.dtype))


def _with_channels(X: NDArray[Any]) -> NDArray[Any]:
    if X.ndim == 3:
        X = X[:, None]
    if X.ndim != 4:
        raise ValueError(f"images must be (n, h, w) or (n, c, h, w), got shape {X.shape}")
    channels, last = X.shape[1], X.shape[3]
    if channels not in (1, 3):
        if last == 3:
            remedy = "move the channels first with X.transpose(0, 3, 1, 2)"
        elif last < min(4, channels) or last == 4:
            remedy = f"if the last axis, {last}, is that of the channels, convert to gray or RGB"
        else:
            remedy = "convert to gray or RGB"
        raise ValueError(f"images must have 1 or 3 channels, got {channels}; {remedy}")
    if min(X.shape[2:]) < 4:
        raise ValueError(f"images must be at least 4 pixels wide and high, got {X.shape[2:]}")
    return X
