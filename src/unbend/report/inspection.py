"""Render the result of ``unbend inspect`` as one HTML page: duplicates and poor images."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from unbend.pixels.duplicates import DuplicateGroup
from unbend.pixels.folders import Broken
from unbend.pixels.quality import Problem
from unbend.report.render import base64_text, make_environment, short_name

__all__ = ["render_inspection"]

_MOST_SHOWN = 200  # groups of duplicates, and images of each problem
_MOST_IN_GROUP = 12
_SIDE = 112


def render_inspection(
    title: str,
    X: NDArray[np.uint8],
    names: Sequence[str],
    groups: Sequence[DuplicateGroup],
    problems: Sequence[Problem],
    broken: Sequence[Broken],
) -> str:
    """The page: every group of duplicates in a row, then the poor images by kind.

    Parameters
    ----------
    X : array of shape (n, 3, s, s)
        The images.
    names : sequence of str
        Their names, which are escaped.
    groups, problems, broken
        What was found.
    """

    def card(row: int, note: str) -> dict[str, Any]:
        return {"name": short_name(names[row]), "note": note, "data": _thumbnail(X[row])}

    kinds = Counter(kind for _, kind, _ in problems)
    poor = {
        kind: [card(row, measure) for row, found, measure in problems if found == kind][
            :_MOST_SHOWN
        ]
        for kind in kinds
    }
    shown = [
        {
            "identical": len(group.identical) == len(group.rows) == group.n_copies + 1,
            "size": len(group.rows),
            "cards": [
                card(row, "" if place else "kept")
                for place, row in enumerate(group.rows[:_MOST_IN_GROUP])
            ],
        }
        for group in groups[:_MOST_SHOWN]
    ]
    return make_environment().get_template("inspection.html").render(
        title=title, n=len(X), groups=shown, n_groups=len(groups), poor=poor, kinds=kinds,
        broken=[(short_name(b.path), b.reason) for b in broken[:_MOST_SHOWN]],
        n_broken=len(broken), n_repeats=sum(len(group.rows) - 1 for group in groups),
    )  # fmt: skip


def _thumbnail(image: NDArray[np.uint8]) -> str:
    picture = Image.fromarray(np.ascontiguousarray(image.transpose(1, 2, 0)))
    file = io.BytesIO()
    picture.resize((_SIDE, _SIDE), Image.Resampling.LANCZOS).save(file, "WEBP", quality=80)
    return base64_text(file.getvalue())
