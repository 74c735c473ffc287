"""TF-IDF and truncated SVD: vectors of texts without a neural network or a download."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

__all__ = ["Tfidf"]

_DIM = 100
_MAX_WORDS = 50_000
_MAX_FITTED = 50_000  # texts from which words and directions are learned
_TOKEN = r"(?u)\b[^\W\d_]{2,}\b"  # words of two letters or more, in any script


class Tfidf:
    """Weights of words, projected to their leading directions, as unit vectors.

    The weight of a word is 1 + log of its frequency in the text, times its idf. Words in fewer than
    three texts (two for small sets) or in more than half of the texts are left out.
    """

    name = "tfidf"

    def __init__(self, words: list[str], idf: NDArray[Any], components: NDArray[Any]) -> None:
        self.words = words
        self.idf = np.asarray(idf, np.float64)
        self.components = np.asarray(components, np.float32)  # (p, words)

    @classmethod
    def fit(cls, texts: Sequence[str]) -> Tfidf:
        """Learn words and directions."""
        from sklearn.decomposition import TruncatedSVD
        from sklearn.feature_extraction.text import TfidfVectorizer

        if len(texts) > _MAX_FITTED:
            rows = np.random.default_rng(0).choice(len(texts), _MAX_FITTED, replace=False)
            texts = [texts[i] for i in np.sort(rows)]
        least = 3 if len(texts) >= 200 else 2 if len(texts) >= 20 else 1
        most = 0.5 if len(texts) >= 20 else 1.0
        counter = TfidfVectorizer(
            min_df=least, max_df=most, sublinear_tf=True, token_pattern=_TOKEN,
            max_features=_MAX_WORDS,
        )  # fmt: skip
        try:
            weights = counter.fit_transform(texts)
        except ValueError as error:
            raise ValueError(
                f"the {len(texts)} texts share no words to compare; give longer texts, or an "
                "encoder such as --encoder hf:NAME"
            ) from error
        dim = max(1, min(_DIM, min(weights.shape) - 1))
        if min(weights.shape) == 1:
            raise ValueError(
                "the texts share a single word; give longer texts, or an encoder such as "
                "--encoder hf:NAME"
            )
        svd = TruncatedSVD(dim, random_state=0).fit(weights)
        return cls(counter.get_feature_names_out().tolist(), counter.idf_, svd.components_)

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Unit vectors (n, p); a text without any known word becomes zero."""
        from sklearn.feature_extraction.text import CountVectorizer
        from sklearn.preprocessing import normalize

        counter = CountVectorizer(
            vocabulary={word: i for i, word in enumerate(self.words)}, token_pattern=_TOKEN
        )
        counts = counter.transform(texts).astype(np.float64)
        counts.data = (1 + np.log(counts.data)) * self.idf[counts.indices]
        Z = normalize(counts).astype(np.float32) @ self.components.T
        found: NDArray[np.float32] = normalize(Z).astype(np.float32)
        return found

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """What :meth:`from_state` needs, as tensors and plain values."""
        tensors = {
            "idf": torch.from_numpy(self.idf.copy()),
            "components": torch.from_numpy(self.components.copy()),
        }
        return tensors, {"name": self.name, "words": self.words}

    @classmethod
    def from_state(cls, tensors: dict[str, Tensor], values: dict[str, Any]) -> Tfidf:
        """Inverse of :meth:`state`."""
        words = [str(word) for word in values["words"]]
        idf, components = tensors["idf"].numpy(), tensors["components"].numpy()
        if idf.shape != (len(words),) or components.shape[1:] != (len(words),):
            raise ValueError(f"{len(words)} words, {idf.shape} weights and {components.shape}")
        return cls(words, idf, components)
