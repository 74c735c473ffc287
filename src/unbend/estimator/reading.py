"""How a model reads samples: any form of X as an array, images and texts through an encoder."""

from __future__ import annotations

import os
import warnings
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from unbend.encoding import EncodedImages, embed_images, embed_texts, open_cache, restore_encoder
from unbend.exceptions import UnbendWarning
from unbend.networks import Encoder, load_encoder
from unbend.networks.encoders import mirror_few
from unbend.progress import Progress, silent
from unbend.samples import Scaling
from unbend.texts import TextEncoder, load_text_encoder, restore_text_encoder

__all__ = ["EncoderOptions", "Reader"]


class EncoderOptions(NamedTuple):
    """The parameters of MLC that decide how samples are encoded."""

    encoder: Any
    device: str
    cache_dir: str | Path | None


@dataclass
class Reader:
    """Read samples for a model. ``fit`` makes one; a saved model keeps record and text state."""

    # Of images. A loaded model restores the encoder from its record when it first sees images.
    encoder: Encoder | None = None
    record: dict[str, Any] | None = None
    # Of texts, likewise.
    text_encoder: TextEncoder | None = None
    text_state: tuple[dict[str, Tensor], dict[str, Any]] | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the text encoder, which can be restored from its state."""
        return vars(self) | {"text_encoder": None}

    @property
    def is_of_texts(self) -> bool:
        """Whether the model was fitted on texts."""
        return self.text_state is not None

    @property
    def encoder_name(self) -> str | None:
        """Name of the encoder of texts or images; None without one."""
        if self.text_state is not None:
            return str(self.text_state[1]["name"])
        return None if self.record is None else str(self.record["name"])

    # ------------------------------------------------------------------ fit

    def read_new(self, X: Any, options: EncoderOptions) -> Any:
        """The samples of fit as an array, a table of features, texts, or encoded images."""
        # Pillow takes time to import.
        from unbend.in_memory import as_samples, pick_columns
        from unbend.tables import is_table

        if isinstance(X, EncodedImages):
            return X
        decoded = False

        def side() -> int | None:  # called only if files or pictures are scaled
            nonlocal decoded
            decoded = True
            return self._load_side(options)

        X = as_samples(X, image_size=side)
        if decoded and options.encoder is None:
            warnings.warn(
                "photographs cluster far better through an encoder: pass encoder='lite2' (pip "
                "install 'unbend[encoder]')",
                UnbendWarning,
                stacklevel=5,
            )
        return pick_columns(X, None) if is_table(X) else X

    def _load_side(self, options: EncoderOptions) -> int | None:
        """Side of the images that the encoder takes; None is the usual one."""
        if options.encoder is None:
            return None
        self.encoder = load_encoder(options.encoder, device=options.device)
        return _longest(self.encoder.resolution)

    def encode_new_texts(
        self, texts: Any, options: EncoderOptions, progress: Progress
    ) -> NDArray[np.float32]:
        """Choose an encoder, let TF-IDF learn its words, and return the vectors of the texts."""
        self.text_encoder = load_text_encoder(options.encoder, texts, options.device)
        self.text_state = self.text_encoder.state()
        return self._embed_texts(texts, options, progress)

    def encode_new_images(
        self, X: Any, options: EncoderOptions, progress: Progress
    ) -> EncodedImages | None:
        """Load the encoder, if there is one, and encode."""
        if options.encoder is None:
            return None
        if isinstance(X, EncodedImages):
            encoded = X
        else:
            encoder = self.encoder or load_encoder(options.encoder, device=options.device)
            encoder = mirror_few(encoder, options.encoder, len(X))
            cache = open_cache(options.cache_dir)
            encoded = EncodedImages(encoder, X, cache=cache, progress=progress)
        self.encoder, self.record = encoded.encoder, encoded.encoder.describe()
        return encoded

    # ------------------------------------------------------------------ after fit

    def embed(
        self,
        X: Any,
        options: EncoderOptions,
        scaling: Scaling,
        columns: Any,
        reading: dict[str, Any] | None = None,
    ) -> Any:
        """What the network of a fitted model takes.

        ``columns`` are the columns of the table of fit, if it was one; ``reading`` is how a run
        has read its table.
        """
        from unbend.in_memory import is_text_array

        X = self._read(X, scaling, columns, reading)
        texts = is_text_array(X)
        if texts != self.is_of_texts:
            kind = "texts" if self.is_of_texts else f"samples {scaling.shape}"
            raise ValueError(
                f"X holds {'texts' if texts else 'no texts'}, but the model was fitted on {kind}"
            )
        if texts:
            return self._embed_texts(X, options)
        if self.record is None:
            return X
        if self.encoder is None:  # a model that was loaded
            self.encoder = restore_encoder(self.record, options.encoder, options.device)
        return embed_images(self.encoder, X, cache=open_cache(options.cache_dir))

    def _read(self, X: Any, scaling: Scaling, columns: Any, reading: dict[str, Any] | None) -> Any:
        from unbend.in_memory import as_samples, pick_columns, read_as_before
        from unbend.tables import is_table

        if isinstance(X, EncodedImages):
            return X
        if isinstance(X, (np.ndarray, Tensor)):
            return as_samples(_as_batch(X, scaling, encoded=self.record is not None))
        if self.is_of_texts and isinstance(X, str) and not os.path.exists(X):
            X = [X]  # a single text
        X = as_samples(X, image_size=partial(self.image_side, scaling))
        if not is_table(X):
            return X
        if columns is None and reading and (reading.get("columns") or reading.get("text")):
            return read_as_before(X, reading)
        return pick_columns(X, columns)

    def image_side(self, scaling: Scaling) -> int | None:
        """Side to which image files are scaled for the model; None if it takes no images."""
        if self.record is not None:
            return _longest(self.record["resolution"])
        return scaling.shape[-1] if len(scaling.shape) == 3 else None

    def _embed_texts(
        self, texts: Any, options: EncoderOptions, progress: Progress = silent
    ) -> NDArray[np.float32]:
        if self.text_encoder is None:  # a model that was loaded
            assert self.text_state is not None
            self.text_encoder = restore_text_encoder(
                *self.text_state, options.encoder, options.device
            )
        cache = open_cache(options.cache_dir)
        return embed_texts(self.text_encoder, texts, cache=cache, progress=progress)


def _as_batch(X: Any, scaling: Scaling, encoded: bool) -> Any:
    """A single image becomes a batch of one: (h, w, 3), or any form of the fitted shape."""
    coloured = encoded or (scaling.is_image and scaling.shape[0] == 3)
    if coloured and X.ndim == 3 and X.shape[2] == 3:  # no batch: gray images have 4 pixels or more
        return X[None]
    if not scaling.is_image:
        return X
    c, h, w = scaling.shape
    alone = [(c, h, w)] if c > 1 else [(h, w), (1, h, w), (h, w, 1)]
    return X[None] if tuple(X.shape) in alone and X.shape != (1, h, w) else X


def _longest(side: Any) -> int | None:
    found: int | None = max(side) if isinstance(side, (list, tuple)) else side
    return found
