"""From a device's name to Lightning Fabric, the engine under every training loop."""

from __future__ import annotations

import logging

import torch
from lightning_fabric import Fabric

__all__ = ["make_fabric"]


def make_fabric(device: str = "auto", precision: str = "32-true") -> Fabric:
    """Fabric on one device: ``"auto"``, ``"cpu"``, ``"cuda"``, ``"cuda:1"`` or ``"mps"``."""
    logging.getLogger("lightning_fabric").setLevel(logging.WARNING)
    kind, _, number = str(device).partition(":")
    available = ["cpu"]
    if torch.cuda.is_available():
        available += ["cuda", *(f"cuda:{i}" for i in range(torch.cuda.device_count()))]
    if torch.backends.mps.is_available():
        available.append("mps")
    if device != "auto" and device not in available:
        raise ValueError(f"`device` {device!r} is not here; available: {', '.join(available)}")
    if device == "auto":
        kind = "cuda" if "cuda" in available else available[-1]
    devices = [int(number)] if number else 1
    try:
        return Fabric(accelerator=kind, devices=devices, precision=precision)  # type: ignore[arg-type]
    except ValueError as error:
        raise ValueError(
            f"`precision` {precision!r} cannot be used; try '32-true' or 'bf16-mixed' ({error})"
        ) from error
