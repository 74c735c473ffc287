"""All named sets, and the function that loads them."""

from __future__ import annotations

import difflib
from pathlib import Path

from unbend.disk import default_data_dir
from unbend.progress import Progress, silent
from unbend.sources.named.archives import DataStore
from unbend.sources.named.cifar import CIFAR10, CIFAR20, CIFAR100, IMB_CIFAR10, IMB_CIFAR100
from unbend.sources.named.digits import DIGITS
from unbend.sources.named.idx import FASHION_MNIST, MNIST
from unbend.sources.named.spec import NamedSet, Recipe
from unbend.sources.named.stl10 import STL10
from unbend.sources.named.tinyimagenet import TINYIMAGENET200

__all__ = ["NAMED_SETS", "load_named"]

NAMED_SETS: dict[str, Recipe] = {
    "digits": DIGITS,
    "fashion-mnist": FASHION_MNIST,
    "mnist": MNIST,
    "cifar10": CIFAR10,
    "cifar20": CIFAR20,
    "cifar100": CIFAR100,
    "tinyimagenet200": TINYIMAGENET200,
    "stl10": STL10,
    "imb-cifar10": IMB_CIFAR10,
    "imb-cifar100": IMB_CIFAR100,
}


def load_named(
    name: str,
    *,
    split: str = "default",
    data_dir: str | Path | None = None,
    download: bool = True,
    progress: Progress = silent,
) -> NamedSet:
    """Load a data set by its name.

    Parameters
    ----------
    name : str
        One of ``NAMED_SETS``, optionally with a split: ``"cifar10:test"``.
    split : str
        ``train``, ``test`` or ``all`` (both); ``default`` is ``train``, as in the paper, and
        ``all`` for the digits. ``stl10`` has ``unlabeled`` too.
    data_dir : path, optional
        Directory of the files and downloads; see :func:`default_data_dir`.
    download : bool
        Whether to download missing files.

    >>> load_named("digits").X.shape
    (1797, 8, 8)
    """
    name, colon, part = name.partition(":")
    if colon and split not in ("default", part):
        raise ValueError(f"'{name}:{part}' and split={split!r} differ; give one of them")
    split = part if colon else split
    if name not in NAMED_SETS:
        near = difflib.get_close_matches(name, NAMED_SETS, 1)
        meant = f"; did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"no data set is called {name!r}; known: {', '.join(NAMED_SETS)}{meant}")
    recipe = NAMED_SETS[name]
    split = recipe.default if split == "default" else split
    if split not in recipe.splits:
        raise ValueError(f"{name} has no split {split!r}; it has: {', '.join(recipe.splits)}")
    directory = Path(data_dir).expanduser() if data_dir is not None else default_data_dir()
    store = DataStore(directory, download, progress)
    X, y = recipe.read(store, split)
    return NamedSet(name, split, X, y, recipe.classes(store))
