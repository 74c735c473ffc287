"""Load the encoder of texts, for new data and for a saved model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from unbend.texts.sentences import SentenceEncoder, find_default_encoder
from unbend.texts.tfidf import Tfidf

__all__ = ["TextEncoder", "load_text_encoder", "restore_text_encoder"]


class TextEncoder(Protocol):
    """What turns texts into vectors."""

    @property
    def name(self) -> str:
        """Shown to the user."""

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Vectors (n, p)."""

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Tensors and plain values to save."""


def load_text_encoder(encoder: Any, texts: Sequence[str], device: str = "auto") -> TextEncoder:
    """Load the encoder for these texts.

    ``"tfidf"`` is learned from the texts and needs no network. ``"hf:NAME"`` or a folder is a
    sentence encoder. None and ``"auto"`` take the usual sentence encoder if sentence-transformers
    is installed and the weights are on this machine, else ``"tfidf"``.
    """
    if hasattr(encoder, "encode") and hasattr(encoder, "state"):
        return encoder  # type: ignore[no-any-return]
    if encoder in (None, "auto"):
        return find_default_encoder() or Tfidf.fit(texts)
    if encoder == "tfidf":
        return Tfidf.fit(texts)
    if isinstance(encoder, (str, Path)):
        name = str(encoder)
        if name.startswith("hf:") or Path(name).expanduser().is_dir():
            return SentenceEncoder.load(name, device=device)
    raise ValueError(
        f"no text encoder is called {encoder!r}; use tfidf, hf:NAME, or the folder of a sentence "
        "encoder"
    )


def restore_text_encoder(
    tensors: dict[str, Tensor], values: Mapping[str, Any], given: Any, device: str
) -> TextEncoder:
    """Load the encoder of a saved model; raise if its weights have changed."""
    if values["name"] == Tfidf.name:
        return Tfidf.from_state(tensors, dict(values))
    name = str(given) if isinstance(given, (str, Path)) else str(values["name"])
    found = SentenceEncoder.load(name, device=device)
    if found.fingerprint != values["fingerprint"]:
        raise ValueError(
            f"text encoder {name!r} has other weights than the one that the model was fitted with; "
            "use that one, or fit again"
        )
    return found
