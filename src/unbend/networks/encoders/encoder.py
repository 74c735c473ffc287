"""The class of all encoders: pixels in, one vector per image out."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from unbend.devices import pick_device
from unbend.networks.encoders.onnx import OnnxNetwork, onnx_installed
from unbend.networks.encoders.preprocess import Preprocessing
from unbend.progress import Progress, Tick, silent

__all__ = ["MIRROR", "Encoder"]

MIRROR = "+mirror"  # at the end of a name: see Encoder.mirrored
PRECISIONS = ("32", "bf16")
ENGINES = ("auto", "torch", "onnx")
STAGE = "encode"


class Encoder:
    """A frozen network with its own preprocessing; created by :func:`load_encoder`.

    Parameters
    ----------
    name : str
        The name given by the user; :func:`load_encoder` accepts it, except for callables.
    module : callable
        Maps preprocessed images (b, c, h, w) to vectors (b, dim).
    preprocess : Preprocessing
        From pixels to the input of ``module``.
    fingerprint : str
        Identifies weights and preprocessing; equal fingerprints give equal embeddings.
    pooling : str, optional
        How the network's feature map is pooled, where there is a choice.
    device : str, default="auto"
    precision : {"32", "bf16"}, optional
        None uses bf16 on GPUs that support it, where it is faster, and 32 bits elsewhere.
    engine : {"torch", "onnx", "auto"}, default="torch"
        What runs ``module``: torch, or onnxruntime on a CPU in 32 bits, for supported layers.
        ``"auto"`` uses onnxruntime where possible. Vectors are the same up to rounding, so the
        engine is not part of ``cache_key``.
    cacheable : bool, default=True
        False if two such encoders cannot be told apart; their embeddings are not cached.
    details : mapping, optional
        Notes on how it was loaded, such as which tensors were ignored.
    """

    mirror: bool = False  # see `mirrored`

    def __init__(
        self,
        name: str,
        module: Callable[[Tensor], Any],
        preprocess: Preprocessing,
        fingerprint: str,
        *,
        pooling: str | None = None,
        device: str = "auto",
        precision: str | None = None,
        engine: str = "torch",
        cacheable: bool = True,
        details: Mapping[str, Any] | None = None,
    ) -> None:
        self.name = name
        self.preprocess = preprocess
        self.fingerprint = fingerprint
        self.pooling = pooling
        self.device = pick_device(device)
        self.precision = _precision(precision, self.device)
        self.cacheable = cacheable
        self.details = dict(details or {})
        self.module = module
        if isinstance(module, nn.Module):
            module.eval().requires_grad_(False)
            self.module = module.to(device=self.device, memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.engine = _engine(engine, self.device, self.precision)
        self.network = self.module  # called by `embed`
        if self.engine == "onnx":
            self._take_onnx(required=engine == "onnx")
        self._dim: int | None = None

    @property
    def resolution(self) -> int | tuple[int, int] | None:
        """Side length of the network's images; None if images are not resized."""
        return self.preprocess.resolution

    @property
    def dim(self) -> int:
        """Length of the vectors."""
        if self._dim is None:
            side = self.preprocess.size or (32, 32)
            blank = torch.zeros(1, 3, *side, dtype=torch.uint8)
            self._dim = int(self.embed(blank).shape[1])
        return self._dim

    @property
    def cache_key(self) -> str:
        """Key of the cached embeddings: the fingerprint, and the precision if it is reduced."""
        return self.fingerprint + ("" if self.precision == "32" else f"-{self.precision}")

    def mirrored(self) -> Encoder:
        """This encoder with the mean of its vectors of an image and of the mirror image.

        It takes twice the time. What a network sees only on one side of a photograph is noise to a
        clustering, and the mean has less of it.
        """
        if self.mirror:
            return self
        other = copy.copy(self)
        other.name, other.fingerprint = self.name + MIRROR, f"{self.fingerprint}-mirror"
        other.mirror = True
        return other

    def embed(self, images: Tensor) -> Tensor:
        """Vectors (b, dim) in float32 of one batch (b, c, h, w), uint8 or float in [0, 1].

        They stay on the encoder's device and carry no gradient.
        """
        with torch.inference_mode(), self._autocast():
            x = self.preprocess(images.to(self.device))
            h = torch.as_tensor(self.network(x))
            if self.mirror:
                h = (h + torch.as_tensor(self.network(x.flip(-1)))) / 2
        if h.ndim != 2 or len(h) != len(images):
            raise ValueError(
                f"encoder {self.name!r} must return one vector per image, got shape "
                f"{tuple(h.shape)} for {len(images)} images; pool its output to (b, d)"
            )
        return h.to(self.device, torch.float32)

    def embed_all(self, images: Tensor, batch_size: int | None = None) -> Tensor:
        """Like :meth:`embed`, in batches of a size that is fast on the device."""
        batch_size = batch_size or default_batch_size(self.device)
        return torch.cat([self.embed(part) for part in torch.split(images, batch_size)])

    def encode(
        self, images: Any, batch_size: int | None = None, progress: Progress = silent
    ) -> NDArray[np.float32]:
        """Vectors (n, dim) of many images (n, h, w) or (n, c, h, w), uint8 or float in [0, 1].

        ``images`` may be memory-mapped; they are read one batch at a time.
        """
        n = len(images)
        batch_size = batch_size or default_batch_size(self.device)
        out: NDArray[np.float32] | None = None
        start = time.perf_counter()
        for begin in range(0, n, batch_size):
            end = min(begin + batch_size, n)
            part = self.embed(as_pixels(images[begin:end])).cpu().numpy()
            if not np.isfinite(part).all():
                raise ValueError(
                    f"encoder {self.name!r} returned NaN or infinity for images {begin} to "
                    f"{end - 1}; check its weights, or use precision='32'"
                )
            if out is None:
                self._dim = part.shape[1]
                out = np.empty((n, part.shape[1]), dtype=np.float32)
            out[begin:end] = part
            speed = end / max(time.perf_counter() - start, 1e-9)
            progress(Tick(STAGE, end, n, {"images/s": speed}))
        return np.empty((0, self.dim), dtype=np.float32) if out is None else out

    def describe(self) -> dict[str, Any]:
        """Plain data with which a saved model can restore this encoder."""
        resolution = self.resolution
        return {
            "name": self.name,
            "fingerprint": self.fingerprint,
            "resolution": list(resolution) if isinstance(resolution, tuple) else resolution,
            "pooling": self.pooling,
            "dim": self.dim,
            "mean": list(self.preprocess.mean),
            "std": list(self.preprocess.std),
            "stem_padding": self.details.get("stem_padding"),
            "mirror": self.mirror,
        }

    def _take_onnx(self, required: bool) -> None:
        size = self.preprocess.size
        try:
            if not isinstance(self.module, nn.Module) or size is None:
                raise ValueError(
                    f"engine 'onnx' needs a module and a fixed resolution, encoder {self.name!r} "
                    "has not both; use engine='torch'"
                )
            self.network = OnnxNetwork(self.module, size)
        except ValueError:  # an unsupported layer; torch gives the same result
            if required:
                raise
            self.engine = "torch"

    def _autocast(self) -> AbstractContextManager[Any]:
        if self.precision == "32":
            return nullcontext()
        return torch.autocast(self.device.type, torch.bfloat16)

    def __repr__(self) -> str:
        return f"Encoder({self.name!r}, resolution={self.resolution}, pooling={self.pooling!r})"


def as_pixels(images: Any) -> Tensor:
    """A batch (b, c, h, w) of uint8, or of floats in [0, 1], from an array or a tensor."""
    if isinstance(images, Tensor):
        batch = images
    else:
        array = np.asarray(images)
        if array.dtype != np.uint8 and array.dtype.kind != "f":
            raise ValueError(
                f"images for an encoder must be uint8 or float in [0, 1], got {array.dtype}; "
                "convert them to uint8"
            )
        batch = torch.from_numpy(np.array(array, order="C"))  # maps may be read-only
    if batch.ndim == 3:
        batch = batch[:, None]
    if batch.ndim != 4:
        raise ValueError(
            f"images for an encoder must be (n, h, w) or (n, c, h, w), got {tuple(batch.shape)}"
        )
    if batch.shape[1] not in (1, 3):
        raise ValueError(
            f"images for an encoder must have 1 or 3 channels, got {batch.shape[1]}; put the "
            "channels first and convert to gray or RGB"
        )
    if batch.dtype != torch.uint8 and batch.numel():
        low, high = (float(v) for v in torch.aminmax(batch))
        if not (low >= 0 and high <= 1):  # also NaN
            raise ValueError(
                f"float images for an encoder must lie in [0, 1], got {low:g} to {high:g}; "
                "scale them or convert them to uint8"
            )
    return batch


def default_batch_size(device: torch.device) -> int:
    """Images per forward pass; on a CPU, small batches fit in the caches and are fastest."""
    return 16 if device.type == "cpu" else 256


def _precision(precision: str | None, device: torch.device) -> str:
    if precision is None:
        # Few CPUs have fast bf16 instructions; on the others it is slower than 32 bits.
        fast = device.type == "cuda" and torch.cuda.is_bf16_supported()
        return "bf16" if fast else "32"
    if precision not in PRECISIONS:
        raise ValueError(
            f"`precision` of an encoder must be one of {', '.join(PRECISIONS)}, got {precision!r}"
        )
    return precision


def _engine(engine: str, device: torch.device, precision: str) -> str:
    """``"torch"`` or ``"onnx"``. Raises if the engine cannot be used, except for ``"auto"``."""
    if engine not in ENGINES:
        raise ValueError(
            f"`engine` of an encoder must be one of {', '.join(ENGINES)}, got {engine!r}"
        )
    if engine == "torch":
        return "torch"
    fits = device.type == "cpu" and precision == "32"
    if engine == "auto":
        return "onnx" if fits and onnx_installed() else "torch"
    if not fits:
        raise ValueError(
            "engine 'onnx' of an encoder runs on device 'cpu' with precision '32', got "
            f"{device.type!r} and {precision!r}; use engine='torch'"
        )
    if not onnx_installed():
        raise ImportError("engine 'onnx' needs onnx and onnxruntime; pip install 'unbend[encoder]'")
    return "onnx"
