"""What the results of all commands share."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

__all__ = ["NOT_IN_JSON", "Result"]

#: Metadata of a field that is for Python only.
NOT_IN_JSON = {"json": False}


class Result:
    """The result of a command: a dataclass with plain values, paths and seconds."""

    def to_dict(self) -> dict[str, Any]:
        """Plain dict, ready for JSON."""
        shown = [f.name for f in fields(self) if f.metadata.get("json", True)]  # type: ignore[arg-type]
        return {name: _plain(name, getattr(self, name)) for name in shown}


def _plain(name: str, value: Any) -> Any:
    if name == "seconds" and value is not None:
        return round(value, 1)
    return str(value) if isinstance(value, Path) else value
