"""ImageNet's words for photographs, from the classifier of the encoder that the run used."""

from __future__ import annotations

import threading
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from unbend.explore.acts import Rows
from unbend.explore.looking import few
from unbend.explore.pictures import Pictures
from unbend.networks.encoders import MIRROR, Encoder, load_encoder
from unbend.networks.encoders.lite import (
    LITE,
    imagenet_words,
    lite_installed,
    load_lite_classifier,
)

__all__ = ["Classes", "knows_classes"]

_PHOTOS = 24  # that stand for a cluster
_LEAST = 0.04  # mean probability of a class that is worth a word


def knows_classes(encoder: str | None) -> bool:
    """Whether this encoder has a classifier here: lite0 or lite2, installed."""
    return _plain(encoder) in LITE and lite_installed(_plain(encoder))


def _plain(encoder: str | None) -> str:
    """The name of the network itself."""
    return (encoder or "").removesuffix(MIRROR)


class Classes:
    """Words for groups of pictures; the network is loaded with the first question."""

    def __init__(self, encoder: str, pictures: Pictures) -> None:
        self.encoder, self.pictures = _plain(encoder), pictures
        self._lock = threading.Lock()
        self._network = lru_cache(1)(self._load)
        self._ask = lru_cache(1024)(self._words)

    def words(self, rows: Rows, count: int = 3) -> list[str]:
        """The classes with the largest mean probability over a sample of the rows, best first."""
        with self._lock:
            return self._ask(few(rows, _PHOTOS).tobytes())[:count]

    def _words(self, key: bytes) -> list[str]:
        rows = np.frombuffer(key, np.int64).tolist()
        tiles = [self.pictures.tile(row, LITE[self.encoder]) for row in rows]
        seen = [tile.transpose(2, 0, 1) for tile in tiles if tile is not None]
        if not seen:
            return []
        encoder, W, b, words = self._network()
        h = torch.from_numpy(encoder.encode(np.stack(seen)))
        p = torch.softmax(h @ W.T + b, 1).mean(0)
        best = torch.argsort(p, descending=True)[:10].tolist()
        return [words[i] for i in best if p[i] >= _LEAST]

    def _load(self) -> tuple[Encoder, Tensor, Tensor, list[str]]:
        W, b = load_lite_classifier(self.encoder)
        return load_encoder(self.encoder, device="cpu"), W, b, imagenet_words()
