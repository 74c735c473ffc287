"""Suggest names of clusters, offline: words of texts and file names, ImageNet's words, dates."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime
from functools import cached_property
from pathlib import Path

import numpy as np
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

from unbend.explore.acts import NOISE, Rows
from unbend.explore.classes import Classes, knows_classes
from unbend.explore.looking import few
from unbend.explore.material import Material
from unbend.pixels.decode import open_image

__all__ = ["Naming", "date_range", "top_words"]

_MEMBERS = 3_000  # that stand for a cluster
_PHOTOS = 80  # whose dates are read
_WORD = re.compile(r"[^\W\d_]{3,}")
# What cameras and programs call files says nothing about the picture.
_EMPTY = frozenset(
    {
        *("img", "image", "images", "dsc", "dscn", "photo", "photos", "pic", "picture", "pictures"),
        *("file", "untitled", "copy", "scan", "screenshot", "frame"),
        *("jpg", "jpeg", "png", "gif", "webp", "tif", "tiff", "bmp", "pgm"),
        *("train", "test", "val", "data", "dataset"),
    }
)
_MONTHS = "January February March April May June July August September October November December"


class Naming:
    """Suggested names for groups of samples."""

    def __init__(self, material: Material) -> None:
        self.material = material
        self._counted: dict[tuple[str, bytes], Counter[str]] = {}
        known = bool(material.pictures) and knows_classes(material.encoder)
        self._classes = Classes(str(material.encoder), material.pictures) if known else None

    @property
    def possible(self) -> bool:
        """Whether there is anything to make names from."""
        m = self.material
        return bool(self._has_words or m.texts or self._classes or m.pictures.files)

    @property
    def _has_words(self) -> bool:
        return any(_WORD.search(str(name)) for name in list(self.material.facts.names[:50]))

    def suggest(self, group: int, groups: Mapping[int, Rows]) -> list[dict[str, str]]:
        """Names for a group beside the others, with where each comes from.

        The best of each source come first, then the second best, and so on.
        """
        rows = groups.get(group)
        if rows is None or not len(rows):
            return []
        ideas: list[tuple[str, list[str]]] = []
        for source, documents in self._documents:
            words = top_words(self._counts(source, documents, groups), group)
            ideas.append((source, [", ".join(words[:3]), *words[:2]] if words else []))
        if self._classes is not None:
            ideas.append(("ImageNet's classes", self._classes.words(rows)))
        ideas.append(("dates of the photographs", self._dates(rows)))
        found: dict[str, str] = {}
        for rank in range(max(len(names) for _, names in ideas)):
            for source, names in ideas:
                if rank < len(names):
                    found.setdefault(names[rank], source)
        return [{"name": name, "source": source} for name, source in found.items()]

    def _dates(self, rows: Rows) -> list[str]:
        files = self.material.pictures.files
        if files is None:
            return []
        span = date_range(filter(None, (taken(files[i]) for i in few(rows, _PHOTOS).tolist())))
        return [span] if span else []

    def words(self, group: int, groups: Mapping[int, Rows], count: int = 10) -> list[str]:
        """The words that set a group apart, from its texts or file names."""
        for source, documents in self._documents:
            return top_words(self._counts(source, documents, groups), group, count)
        return []

    def _counts(
        self, source: str, documents: list[list[str]], groups: Mapping[int, Rows]
    ) -> dict[int, Counter[str]]:
        """How many members of each group use each word; groups that did not change are kept."""
        found: dict[int, Counter[str]] = {}
        kept: dict[tuple[str, bytes], Counter[str]] = {}
        for g, rows in groups.items():
            if g != NOISE:
                some = few(rows, _MEMBERS)
                key = source, some.tobytes()
                found[g] = kept[key] = self._counted.get(key) or _count(documents, some)
        others = {key: c for key, c in self._counted.items() if key[0] != source}
        self._counted = others | kept
        return found

    @cached_property
    def _documents(self) -> list[tuple[str, list[list[str]]]]:
        """The words of each sample, by where they come from."""
        found = []
        if self.material.texts is not None:
            found.append(("words of the texts", [_words(t) for t in self.material.texts]))
        names = self.material.facts.names
        if self._has_words:
            found.append(("words of the file names", [_words(str(name)) for name in names]))
        return found


def top_words(counts: Mapping[int, Counter[str]], group: int, count: int = 5) -> list[str]:
    """The words of a group by class-based TF-IDF: frequent here, rare in the other groups.

    tf is the share of the word in the group, and idf = ln(1 + A / f) with f the number of its
    occurrences in all groups and A the average number of words in a group.

    >>> counts = {0: Counter(cat=3, the=4), 1: Counter(dog=3, the=4)}
    >>> top_words(counts, 0)[0]
    'cat'
    """
    here = counts[group]
    total = sum(here.values())
    if not total:
        return []
    everywhere: Counter[str] = Counter()
    for words in counts.values():
        everywhere.update(words)
    average = sum(everywhere.values()) / len(counts)
    score = {
        word: (times / total) * np.log1p(average / everywhere[word])
        for word, times in here.items()
        # A word that is no more frequent here than elsewhere tells nothing.
        if len(counts) == 1 or times / total > 1.2 * everywhere[word] / sum(everywhere.values())
    }
    return sorted(score, key=lambda word: (-score[word], word))[:count]


def _count(documents: list[list[str]], rows: Rows) -> Counter[str]:
    """How many of the samples use each word."""
    found: Counter[str] = Counter()
    for row in rows.tolist():
        found.update(set(documents[row]))
    return found


def _words(text: str) -> list[str]:
    words = (word.casefold() for word in _WORD.findall(text[:20_000]))
    return [w for w in words if w not in _EMPTY and w not in ENGLISH_STOP_WORDS]


def taken(path: Path) -> datetime | None:
    """When a photograph was taken, by its EXIF data."""
    try:
        with open_image(path) as image:
            exif = image.getexif()
            text = exif.get_ifd(0x8769).get(0x9003) or exif.get(0x0132)
        return datetime.strptime(str(text), "%Y:%m:%d %H:%M:%S")
    except Exception:  # Pillow's readers raise almost anything on bad content
        return None


def date_range(dates: Iterable[datetime]) -> str:
    """The time that most of the dates span, in words; empty without dates.

    >>> date_range([datetime(2019, 5, 3), datetime(2019, 5, 20), datetime(2019, 6, 1)])
    'May to June 2019'
    """
    known = sorted(dates)
    if not known:
        return ""
    cut = len(known) // 20  # the wrong clock of a camera
    first, last = known[cut], known[-1 - cut]
    months = _MONTHS.split()
    if first.date() == last.date():
        return f"{first.day} {months[first.month - 1]} {first.year}"
    if first.year != last.year:
        return f"{first.year} to {last.year}"
    if first.month == last.month:
        return f"{months[first.month - 1]} {first.year}"
    return f"{months[first.month - 1]} to {months[last.month - 1]} {first.year}"
