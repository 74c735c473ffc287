"""Compute embeddings and views of images with a frozen encoder, and restore saved encoders."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unbend.config import ViewConfig
from unbend.disk import check_whole, default_cache_dir, hash_samples, hash_values
from unbend.networks import Encoder, load_encoder
from unbend.progress import Progress, Tick, silent
from unbend.samples import Scaling, ViewSampler, as_array
from unbend.samples.embedding_cache import EmbeddingCache
from unbend.samples.encoded_views import CachedViews, LiveViews, augmented, policy_fingerprint
from unbend.samples.neighbor_cache import NeighborCache
from unbend.texts import TextEncoder
from unbend.texts.sentences import SentenceEncoder

__all__ = [
    "EncodedImages",
    "check_record",
    "embed_images",
    "embed_texts",
    "open_cache",
    "restore_encoder",
]

_RECORD = ("name", "fingerprint", "resolution", "pooling", "mean", "std")  # saved fields
_PART = 512  # images augmented at a time without a cache


def open_cache(folder: str | Path | None = "auto") -> EmbeddingCache | None:
    """The embedding cache in a folder; ``"auto"`` is the user's cache, None disables it."""
    if folder is None:
        return None
    return _cache_in(str(default_cache_dir() / "embeddings" if folder == "auto" else folder))


@lru_cache(maxsize=8)
def _cache_in(folder: str) -> EmbeddingCache:
    """Share one cache object per folder, because it keeps an index in memory."""
    return EmbeddingCache(folder)


def embed_images(
    encoder: Encoder,
    images: Any,
    *,
    cache: EmbeddingCache | None = None,
    hashes: Sequence[str] | None = None,
    progress: Progress = silent,
) -> NDArray[np.float32]:
    """Embeddings (n, p) of images; those in the cache are not encoded again.

    ``hashes`` identify the pixels that the encoder gets; they are computed when not given.
    """
    encoded = EncodedImages(encoder, images, cache=cache, hashes=hashes, progress=progress)
    return encoded.embeddings


def embed_texts(
    encoder: TextEncoder,
    texts: Sequence[str],
    *,
    cache: EmbeddingCache | None = None,
    progress: Progress = silent,
) -> NDArray[np.float32]:
    """Vectors (n, p) of texts; those that a sentence encoder has seen come from the cache."""
    if not isinstance(encoder, SentenceEncoder):
        return encoder.encode(texts)
    if cache is None:
        return encoder.encode(texts, progress)
    hashes = [hash_values(str(text)) for text in texts]

    def encode(part: NDArray[np.int64]) -> NDArray[np.float32]:
        return encoder.encode([str(texts[i]) for i in part])

    return cache.get(encoder.cache_key, hashes, encode, progress=progress)


class EncodedImages:
    """The images of a fit, with their embeddings and views.

    Parameters
    ----------
    encoder : Encoder
    images : array of shape (n, h, w) or (n, c, h, w)
        uint8, or float in [0, 1].
    cache : EmbeddingCache, optional
        Not used if the encoder has no reliable fingerprint.
    hashes : sequence of str, optional
    """

    def __init__(
        self,
        encoder: Encoder,
        images: Any,
        *,
        cache: EmbeddingCache | None = None,
        hashes: Sequence[str] | None = None,
        progress: Progress = silent,
    ) -> None:
        self.encoder = encoder
        self.images = _checked(images)
        self.cache = cache if encoder.cacheable else None
        self.progress = progress
        if hashes is not None and len(hashes) != len(self.images):
            raise ValueError(
                f"`hashes` must have one entry per image, {len(self.images)}, got {len(hashes)}"
            )
        self._hashes = hashes
        self.embeddings = self._get(
            encoder.cache_key, "encode", lambda part: np.asarray(self.images[part])
        )

    @property
    def hashes(self) -> Sequence[str]:
        """Content hash of each image."""
        if self._hashes is None:
            self._hashes = hash_samples(self.images)
        return self._hashes

    def views(self, config: ViewConfig, scaling: Scaling) -> Callable[..., ViewSampler]:
        """Factory for the views of Algorithm 1 from scaled embeddings, config and generator."""
        # Neighbours are cached next to the embeddings.
        kept: dict[str, Any] = {}
        if self.cache is not None:
            kept["search"] = NeighborCache(self.cache.neighbors)
        if config.source == "cached":
            return partial(CachedViews, bank=self._bank(config, scaling), **kept)
        if config.source == "live":

            def embed(x: Tensor) -> Tensor:
                return (self.encoder.embed_all(x) - scaling.offset) / scaling.scale

            return partial(LiveViews, images=self.images, embed=embed, **kept)
        return partial(ViewSampler, **kept)

    def _bank(self, config: ViewConfig, scaling: Scaling) -> Tensor:
        """Scaled embeddings (V, n, p) of the augmented copies."""
        policy = config.augmentation
        copies = []
        for v in range(config.n_cached):

            def draw(part: NDArray[np.int64], v: int = v) -> Tensor:
                return augmented(self.images[part], [self.hashes[i] for i in part], policy, v)

            key = f"{self.encoder.cache_key}|{policy_fingerprint(policy)}|{v}"
            stage = f"view {v + 1}/{config.n_cached}"
            copies.append(scaling.apply(self._get(key, stage, draw)))
        return torch.stack(copies)

    def _get(
        self, key: str, stage: str, draw: Callable[[NDArray[np.int64]], Any]
    ) -> NDArray[np.float32]:
        """Vectors of all images after ``draw``, from the cache if possible."""
        n, done = len(self.images), 0

        def encode(part: NDArray[np.int64]) -> NDArray[np.float32]:
            nonlocal done
            check_whole(self.images)
            total = n if self.cache is None else self.cache.encoded

            def shifted(tick: Tick) -> None:
                self.progress(Tick(stage, done + tick.done, total, tick.values))

            vectors = self.encoder.encode(draw(part), progress=shifted)
            done += len(part)
            return vectors

        if self.cache is not None:
            return self.cache.get(key, self.hashes, encode)
        parts = np.array_split(np.arange(n), max(1, -(-n // _PART)))
        return np.concatenate([encode(part) for part in parts])


def check_record(record: Any) -> None:
    """Raise unless this describes an encoder, as :meth:`Encoder.describe` does, or is None."""
    if record is None:
        return
    remedy = "fit and save it again"
    if not isinstance(record, dict):
        raise ValueError(f"the record of the encoder in this model is not an object; {remedy}")
    missing = [key for key in _RECORD if key not in record]
    if missing:
        raise ValueError(f"the record of the encoder in this model lacks {missing[0]!r}; {remedy}")
    side = record["resolution"]
    sides = side if isinstance(side, list) and len(side) == 2 else [side]
    good = {
        "name": isinstance(record["name"], str),
        "resolution": side is None or all(type(s) is int and 0 < s <= 4096 for s in sides),
        "mean": isinstance(record["mean"], list),
        "std": isinstance(record["std"], list),
    }
    for key, holds in good.items():
        if not holds:
            raise ValueError(
                f"the record of the encoder in this model has {key} = {record[key]!r}; {remedy}"
            )


def restore_encoder(record: Mapping[str, Any], given: Any, device: str) -> Encoder:
    """Restore the encoder of a saved model; raise if its weights or preprocessing differ."""
    name = str(record["name"])
    if given is None and name.startswith("callable:"):
        raise ValueError(
            f"the model was fitted with {name!r}, which is not saved with it; give it again: "
            "load(path, encoder=...)"
        )
    side = record["resolution"]
    square = side if isinstance(side, int) else None
    if given is None or isinstance(given, (str, Path)):
        options = {"resolution": square, "pooling": record["pooling"], "device": device}
        options |= {key: tuple(record[key]) for key in ("mean", "std")}
        options["stem_padding"] = record.get("stem_padding")
        encoder = load_encoder(name if given is None else str(given), **options)
    else:
        encoder = load_encoder(given, resolution=square, device=device)
    if record.get("mirror", False):  # also where a plain path says that the encoder has moved
        encoder = encoder.mirrored()
    if encoder.fingerprint != record["fingerprint"]:
        raise ValueError(
            f"encoder {encoder.name!r} has fingerprint {encoder.fingerprint}, but the model was "
            f"fitted with {name!r} {record['fingerprint']}; other weights or another "
            "preprocessing would give nonsense: use the same encoder, or fit again"
        )
    return encoder


def _checked(images: Any) -> NDArray[Any]:
    array: NDArray[Any] = images if isinstance(images, np.ndarray) else as_array(images)
    if array.ndim not in (3, 4):
        raise ValueError(
            f"an encoder needs images (n, h, w) or (n, c, h, w), got shape {array.shape}; leave "
            "`encoder` out for vectors"
        )
    if array.ndim == 4 and array.shape[1] not in (1, 3):
        raise ValueError(
            f"images for an encoder must have 1 or 3 channels, got {array.shape[1]}; put the "
            "channels first with X.transpose(0, 3, 1, 2), or convert to gray or RGB"
        )
    return array
