"""pyarrow, an extra: it reads and writes tables, and takes more space than all else but torch."""

from __future__ import annotations

from importlib.util import find_spec

__all__ = ["has_arrow", "need_arrow"]


def has_arrow() -> bool:
    """Whether pyarrow is installed."""
    return find_spec("pyarrow") is not None


def need_arrow(what: str) -> None:
    """Raise an ImportError in the name of ``what`` if pyarrow is not installed."""
    if not has_arrow():
        raise ImportError(f"{what} needs pip install 'unbend[tables]'")
