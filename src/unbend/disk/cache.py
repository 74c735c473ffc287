"""The mechanism behind all caches: a folder of verified entries, limited in number.

An entry is a safetensors file of arrays and plain values. It is written atomically, so a killed
process leaves no partial entry and two processes may write at once. A hash of its content is
stored with it and checked on reading; a damaged entry is deleted and computed again.
"""

from __future__ import annotations

import json
import os
import shutil
import stat
import warnings
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from unbend.disk.files import atomic_write, to_json
from unbend.disk.hashes import hash_array, hash_values
from unbend.exceptions import UnbendWarning

__all__ = ["REMEDY", "Cache", "Entry", "keep_latest"]

_ENDING = ".v2.safetensors"  # raise the number when the layout changes: old files are not read
REMEDY = "free space, or set UNBEND_CACHE to a directory that can be written"


class Entry(NamedTuple):
    """The content of an entry."""

    arrays: dict[str, NDArray[Any]]
    values: dict[str, Any]


class Cache:
    """Entries by name, where a name is the hash of everything that the content depends on.

    Parameters
    ----------
    folder : path
        Created when the first entry is stored. It may be deleted at any time.
    most : int, optional
        Maximum number of entries; beyond it the least recently used are deleted.

    Examples
    --------
    >>> import tempfile
    >>> cache = Cache(tempfile.mkdtemp(), most=10)
    >>> cache.put("name", {"x": np.arange(3)}, {"seconds": 1.5})
    >>> cache.get("name").arrays["x"], cache.get("other")
    (array([0, 1, 2]), None)
    """

    def __init__(self, folder: str | Path, most: int | None = None) -> None:
        if most is not None and most < 1:
            raise ValueError(f"`most` of Cache must be >= 1, got {most!r}; try 20")
        self.folder, self.most = Path(folder).expanduser(), most
        self._warned: set[str] = set()

    def path(self, name: str) -> Path:
        """The file of an entry."""
        return self.folder / f"{name}{_ENDING}"

    def names(self) -> set[str]:
        """Names of all entries."""
        return {path.name.removesuffix(_ENDING) for path in self.folder.glob(f"*{_ENDING}")}

    def get(self, name: str, *only: str) -> Entry | None:
        """An entry, or ``only`` some of its arrays; None if it is missing or damaged."""
        path = self.path(name)
        try:
            if not stat.S_ISREG(os.stat(path).st_mode):
                raise ValueError("it is not a regular file")
            entry = _read(path, only)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            self._warn("cannot be read", error.strerror or str(error))
            return None
        except (SafetensorError, ValueError, LookupError, TypeError, RecursionError) as error:
            self._warn("has damaged entries, which are computed again", f"{path.name}: {error}")
            if path.is_file():
                with suppress(OSError):
                    path.unlink()
            return None
        with suppress(OSError):  # the cache may be read-only
            os.utime(path)
        return entry

    def put(
        self, name: str, arrays: Mapping[str, Any], values: Mapping[str, Any] | None = None
    ) -> None:
        """Store an entry; warn if the folder cannot be written, since the result is not lost."""
        found = {key: np.asarray(array, order="C") for key, array in arrays.items()}
        if not all(map(_is_finite, found.values())):
            return
        plain = json.loads(to_json(values or {}))
        hashes = {key: hash_array(array) for key, array in found.items()}
        head = {"values": plain, "arrays": hashes, "hash": hash_values(plain, hashes)}
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            atomic_write(self.path(name), save(found, {"unbend": json.dumps(head)}))
        except OSError as error:
            self._warn("cannot be written", error.strerror or str(error))
            return
        if self.most is not None:
            keep_latest(self.folder.glob(f"*{_ENDING}"), self.most)

    def _warn(self, what: str, why: str) -> None:
        """Warn once of each kind of problem, not once per entry."""
        if what not in self._warned:
            self._warned.add(what)
            remedy = "" if "damaged" in what else f"; {REMEDY}"
            text = f"the cache {str(self.folder)!r} {what} ({why}){remedy}"
            warnings.warn(text, UnbendWarning, stacklevel=4)


def _read(path: Path, only: tuple[str, ...]) -> Entry:
    with safe_open(path, framework="numpy") as file:
        head = json.loads((file.metadata() or {})["unbend"])
        if head["hash"] != hash_values(head["values"], head["arrays"]):
            raise ValueError("its header is not what was written")
        arrays = {key: file.get_tensor(key) for key in only or head["arrays"]}
    for key, array in arrays.items():
        if hash_array(array) != head["arrays"][key] or not _is_finite(array):
            raise ValueError(f"{key!r} is not what was written")
    return Entry(arrays, head["values"])


def _is_finite(array: NDArray[Any]) -> bool:
    return array.dtype.kind not in "fc" or bool(np.isfinite(array).all())


def keep_latest(paths: Iterable[Path], most: int) -> None:
    """Delete all files and directories except the ``most`` recently used."""
    by_age = sorted(paths, key=_used)
    for path in by_age[: max(0, len(by_age) - most)]:
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            with suppress(OSError):
                path.unlink()


def _used(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:  # another process deleted it
        return 0.0
