"""Whether the Hugging Face hub can be reached; checked once, so that offline calls fail quickly."""

from __future__ import annotations

import os
import socket
from functools import lru_cache
from urllib.parse import urlsplit

__all__ = ["is_offline"]

_SECONDS = 3.0


def is_offline() -> bool:
    """Whether only local files can be read: by choice, or because the hub does not answer."""
    if os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE"):
        return True
    if any(os.environ.get(name) for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY")):
        return False  # the proxy decides
    return not _answers(os.environ.get("HF_ENDPOINT") or "https://huggingface.co")


@lru_cache(maxsize=4)
def _answers(endpoint: str) -> bool:
    parts = urlsplit(endpoint)
    port = parts.port or (80 if parts.scheme == "http" else 443)
    try:
        socket.create_connection((parts.hostname or "", port), timeout=_SECONDS).close()
    except OSError:
        return False
    return True
