"""Docstrings of the standard library as vectors, labelled by the package they are from."""

from __future__ import annotations

import ast
import sysconfig
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

__all__ = ["docstring_vectors", "read_docstrings"]

# Tests, installed packages, and modules that newer versions of Python no longer have.
_LEFT_OUT = {"site-packages", "dist-packages", "test", "tests", "idlelib", "distutils", "lib2to3"}


def docstring_vectors(
    folder: Path | None = None, *, each: int = 100, dim: int = 100
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """TF-IDF of the docstrings of large packages, then truncated SVD, then unit rows.

    Packages are the top-level names with at least ``each`` docstrings. The result depends on the
    version of Python.
    """
    from sklearn.decomposition import TruncatedSVD
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.preprocessing import normalize

    texts, names = read_docstrings(folder or Path(sysconfig.get_path("stdlib")))
    counts = Counter(names)
    large = sorted(name for name in counts if counts[name] >= each)
    if len(large) < 2:
        raise FileNotFoundError(
            f"the standard library has {len(large)} packages with {each} docstrings, which makes "
            "no problem; run with a Python that has the sources of its library"
        )
    rows = [i for i, name in enumerate(names) if name in large]
    words = TfidfVectorizer(
        min_df=3, max_df=0.5, sublinear_tf=True, token_pattern=r"(?u)\b[a-zA-Z]{2,}\b"
    ).fit_transform([texts[i] for i in rows])
    dim = min(dim, min(words.shape) - 1)
    X = normalize(TruncatedSVD(dim, random_state=0).fit_transform(words)).astype(np.float32)
    kept = np.linalg.norm(X, axis=1) > 0  # others share no word with any text
    y = np.array([large.index(names[i]) for i in rows], dtype=np.int64)
    return X[kept], y[kept]


def read_docstrings(folder: Path, *, least: int = 8) -> tuple[list[str], list[str]]:
    """Each docstring of ``least`` words or more once, and the top-level name it is from."""
    found: dict[str, str] = {}
    for file in sorted(folder.rglob("*.py")):
        parts = file.relative_to(folder).parts
        if _LEFT_OUT.isdisjoint(parts):
            for text in _docstrings(file):
                if len(text.split()) >= least:
                    found.setdefault(text, parts[0].removesuffix(".py"))
    return list(found), list(found.values())


def _docstrings(file: Path) -> Iterator[str]:
    try:
        tree = ast.parse(file.read_bytes())
    except (SyntaxError, ValueError):  # templates and deliberately broken files
        return
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            text = ast.get_docstring(node)
            if text:
                yield text
