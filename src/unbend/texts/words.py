"""Words that distinguish the clusters of texts, and passages to show."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["passage", "top_words"]

_TOKEN = r"(?u)\b[^\W\d_]{2,}\b"
_MAX_WORDS = 50_000


def top_words(
    texts: Sequence[str], labels: NDArray[Any], k: int, count: int = 10
) -> list[list[str]]:
    """The words that distinguish each cluster, the best first.

    The score of a word is the share of the cluster's texts that contain it, times the logarithm of
    the ratio of that share to the share among the other texts. Words that occur in a single text
    of the cluster are left out.

    >>> top_words(["red fox", "red sun", "blue sea", "blue sky"], np.array([0, 0, 1, 1]), 2, 1)
    [['red'], ['blue']]
    """
    from sklearn.feature_extraction.text import CountVectorizer

    counter = CountVectorizer(token_pattern=_TOKEN, binary=True, max_features=_MAX_WORDS)
    try:
        holds = counter.fit_transform(texts).astype(np.float64)
    except ValueError:  # no words at all
        return [[] for _ in range(k)]
    words = counter.get_feature_names_out()
    labels = np.asarray(labels)
    total = np.asarray(holds.sum(axis=0)).ravel()
    found = []
    for q in range(k):
        own = labels == q
        size, rest = max(1, int(own.sum())), max(1, int((~own).sum()))
        inside = np.asarray(holds[np.flatnonzero(own)].sum(axis=0)).ravel()
        # A pseudo-count keeps the score of a word that no other cluster uses finite.
        lift = np.log((inside + 0.5) / (size + 1)) - np.log((total - inside + 0.5) / (rest + 1))
        score = np.where((lift > 0) & (inside >= min(2, size)), inside / size * lift, 0.0)
        order = np.argsort(-score, kind="stable")[:count]
        found.append([str(words[j]) for j in order if score[j] > 0])
    return found


def passage(text: str, longest: int = 240) -> str:
    """The beginning of a text in one line, cut at a word.

    >>> passage("One  two\\nthree four", 12)
    'One two …'
    """
    flat = re.sub(r"\s+", " ", text).strip()
    if len(flat) <= longest:
        return flat
    cut = flat[: longest - 2].rsplit(" ", 1)[0]
    return f"{cut} …"
