"""Open the input of a command and choose its encoder."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unbend.encoding import EncodedImages, open_cache
from unbend.exceptions import UnbendWarning
from unbend.networks.encoders import Encoder, default_encoder, load_encoder
from unbend.progress import Progress, silent
from unbend.sources import Source, holds_texts, open_source
from unbend.texts import TextEncoder, load_text_encoder

__all__ = ["Inputs", "read_inputs"]

# Small gray images are learned from their pixels; photographs need a pre-trained encoder.
_SMALL = 40


@dataclass(frozen=True)
class Inputs:
    """A source, and the encoder of its images or texts, if there is one."""

    source: Source
    encoder: Encoder | None = None
    text_encoder: str | TextEncoder | None = None
    because: str = ""  # why this encoder, or none

    @property
    def n_samples(self) -> int:
        """Number of samples."""
        return len(self.source.X)

    def embeddings(self, progress: Progress = silent) -> NDArray[Any]:
        """The samples, or their embeddings; cached embeddings are not computed again."""
        encoded = self.encoded(progress)
        return self.source.X if encoded is None else encoded.embeddings

    def encoded(
        self, progress: Progress = silent, rows: NDArray[np.int64] | None = None
    ) -> EncodedImages | None:
        """The images (or some rows of them) with their embeddings; None without an encoder."""
        source = self.source
        if self.encoder is None:
            return None
        X, hashes = source.X, source.hashes
        if rows is not None:
            X, hashes = np.asarray(X[rows]), [hashes[i] for i in rows]
        return EncodedImages(self.encoder, X, cache=open_cache(), hashes=hashes, progress=progress)


def read_inputs(
    spec: Any,
    *,
    encoder: str | Encoder = "auto",
    image_size: int | None = None,
    device: str = "auto",
    progress: Progress = silent,
    **options: Any,
) -> Inputs:
    """Open a source and load its encoder.

    ``encoder="auto"`` uses none for vectors and for gray images up to 40 pixels wide, else lite2
    if it is installed. Image files are decoded at the resolution of the encoder unless
    ``image_size`` is given. ``options`` are those of :func:`unbend.sources.open_source`.
    """
    if holds_texts(spec, options.get("text")):
        chosen = _for_texts(encoder, device)
        source = open_source(spec, progress=progress, **options)
        return Inputs(source, None, chosen, _because(encoder, source, None))
    loaded = _load_early(spec, encoder, device)
    source = _open(spec, image_size, loaded, progress, options)
    if encoder == "auto" and loaded is None and _wants_encoder(source):
        name = default_encoder()
        if name is None:
            warnings.warn(
                "images like these cluster far better with an encoder: "
                "pip install 'unbend[encoder]'",
                UnbendWarning,
                stacklevel=3,
            )
        else:
            loaded = load_encoder(name, device=device)
            if source.paths is not None and image_size is None:  # decode at its resolution
                source = _open(spec, image_size, loaded, progress, {**options, "ready": None})
    if source.kind == "texts":
        return Inputs(source, None, _for_texts(encoder, device), _because(encoder, source, None))
    if loaded is not None and source.kind == "vectors":
        raise ValueError(
            f"an encoder is for images, and {_name(spec)} holds vectors; leave --encoder out"
        )
    return Inputs(source, loaded, None, _because(encoder, source, loaded))


def _because(encoder: str | Encoder, source: Source, loaded: Encoder | None) -> str:
    """Why there is this encoder, or none; vectors need no reason."""
    if source.kind == "vectors":
        return ""
    if encoder != "auto":
        return "as asked"
    if source.kind == "texts":
        return "found on this machine; --encoder tfidf compares words"
    if loaded is not None:
        return "the usual one for photographs"
    return "none is installed" if _wants_encoder(source) else "small gray images need none"


def _for_texts(encoder: str | Encoder, device: str) -> str | TextEncoder:
    """The encoder of texts for MLC; a sentence encoder is loaded, so that errors come early."""
    if isinstance(encoder, Encoder) or encoder == "none":
        raise ValueError(
            "texts need an encoder; leave --encoder out for tfidf, or take hf:NAME or a folder"
        )
    return encoder if encoder in ("auto", "tfidf") else load_text_encoder(encoder, (), device)


def _load_early(spec: Any, encoder: str | Encoder, device: str) -> Encoder | None:
    """The encoder, if it can be chosen before the input is opened."""
    if isinstance(encoder, Encoder):
        return encoder
    if encoder == "tfidf":
        raise ValueError(
            f"encoder tfidf is for texts, and {_name(spec)} holds none; leave --encoder out, or "
            "name the column of texts with --text"
        )
    if encoder == "auto":
        folder = isinstance(spec, (str, Path)) and Path(spec).expanduser().is_dir()
        name = default_encoder() if folder else None
        return None if name is None else load_encoder(name, device=device)
    return None if encoder == "none" else load_encoder(encoder, device=device)


def _open(
    spec: Any,
    image_size: int | None,
    encoder: Encoder | None,
    progress: Progress,
    options: dict[str, Any],
) -> Source:
    if image_size is None and encoder is not None and encoder.resolution is not None:
        side = encoder.resolution
        image_size = max(side) if isinstance(side, tuple) else side
    return open_source(spec, image_size=image_size, progress=progress, **options)


def _wants_encoder(source: Source) -> bool:
    if source.kind != "images":
        return False
    gray = source.X.ndim == 3 or source.X.shape[1] == 1
    return not (gray and max(source.X.shape[-2:]) <= _SMALL)


def _name(spec: Any) -> str:
    return repr(str(spec)) if isinstance(spec, (str, Path)) else "the array"
