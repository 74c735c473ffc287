"""Where caches and data sets live."""

from __future__ import annotations

import os
from pathlib import Path

from platformdirs import user_cache_path

__all__ = ["default_cache_dir", "default_data_dir"]


def default_cache_dir() -> Path:
    """``$UNBEND_CACHE``, or ``unbend`` in the cache directory of the platform.

    Everything under it can be deleted at any time; it is created again when needed.
    """
    given = _from_environment("UNBEND_CACHE")
    return given or user_cache_path("unbend", appauthor=False, opinion=False)


def default_data_dir() -> Path:
    """``$UNBEND_DATA``, or ``data`` in the cache directory: the home of the named data sets."""
    return _from_environment("UNBEND_DATA") or default_cache_dir() / "data"


def _from_environment(name: str) -> Path | None:
    given = os.environ.get(name)
    if not given:
        return None
    try:
        return Path(given).expanduser()
    except RuntimeError as error:  # ~name of an unknown user
        raise ValueError(
            f"{name}={given!r} names an unknown home directory; give a full path"
        ) from error
