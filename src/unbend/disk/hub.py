"""The Hugging Face hub and its library: whether it can be reached, and how to silence it."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

__all__ = ["is_offline", "quiet_transformers"]

_SECONDS = 3.0


def is_offline() -> bool:
    """Whether only local files can be read: by choice, or because the hub does not answer.

    The hub is asked once, so that offline calls fail quickly.
    """
    if os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE"):
        return True
    if any(os.environ.get(name) for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY")):
        return False  # the proxy decides
    return not _answers(os.environ.get("HF_ENDPOINT") or "https://huggingface.co")


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """Silence progress bars and warnings of transformers while a model loads."""
    from transformers.utils import logging as module

    library: Any = module
    level, bars = library.get_verbosity(), library.is_progress_bar_enabled()
    library.set_verbosity(logging.CRITICAL)
    library.disable_progress_bar()
    try:
        yield
    finally:
        library.set_verbosity(level)
        if bars:
            library.enable_progress_bar()


@lru_cache(maxsize=4)
def _answers(endpoint: str) -> bool:
    parts = urlsplit(endpoint)
    port = parts.port or (80 if parts.scheme == "http" else 443)
    try:
        socket.create_connection((parts.hostname or "", port), timeout=_SECONDS).close()
    except OSError:
        return False
    return True
