"""Create the Lightning Fabric object of a training loop for a named device."""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:  # Fabric imports torch.compile, which takes longer than torch itself
    from lightning_fabric import Fabric

__all__ = ["make_fabric", "pick_device"]


def pick_device(device: str = "auto") -> torch.device:
    """The device of :func:`make_fabric` in a single process, without Fabric."""
    kind, number = _resolve(str(device))
    if kind == "cpu":
        return torch.device("cpu")
    return torch.device(kind, int(number or 0))


def make_fabric(device: str = "auto", precision: str = "32-true") -> Fabric:
    """Fabric on one device: ``"auto"``, ``"cpu"``, ``"cuda"``, ``"cuda:1"`` or ``"mps"``.

    Under ``torchrun`` every process gets its own device, and the processes are connected (gloo on
    the CPU, NCCL on GPUs).
    """
    from lightning_fabric import Fabric

    logging.getLogger("lightning_fabric").setLevel(logging.WARNING)
    kind, number = _resolve(str(device))
    world, local = _launched()
    if world > 1 and number:
        raise ValueError(
            f"`device` {device!r} names one device for {world} processes; use {kind!r}"
        )
    try:
        if world == 1:
            devices = [int(number)] if number else 1
            return Fabric(accelerator=kind, devices=devices, precision=precision)  # type: ignore[arg-type]
        fabric = Fabric(
            accelerator=kind,
            devices=local,
            num_nodes=world // local,
            strategy=_one_loss(),
            precision=precision,  # type: ignore[arg-type]
        )
    except ValueError as error:
        raise ValueError(
            f"`precision` {precision!r} cannot be used; try '32-true' or 'bf16-mixed' ({error})"
        ) from error
    fabric.launch()
    return fabric


def _one_loss() -> Any:
    """Processes that compute the loss of one global batch together.

    Fabric starts and connects them; the loop itself gathers features and averages gradients. DDP
    would average the losses of separate batches, which is a different objective unless the loss
    is a sum over samples.
    """
    from lightning_fabric.strategies.ddp import DDPStrategy

    class OneLoss(DDPStrategy):
        def setup_module(self, module: torch.nn.Module) -> torch.nn.Module:  # type: ignore[override]
            return module

    return OneLoss()


def _resolve(device: str) -> tuple[str, str]:
    """Kind and index of an available device."""
    kind, _, number = device.partition(":")
    available = ["cpu"]
    if torch.cuda.is_available():
        available += ["cuda", *(f"cuda:{i}" for i in range(torch.cuda.device_count()))]
    if torch.backends.mps.is_available():
        available.append("mps")
    if device == "auto":
        return ("cuda" if "cuda" in available else available[-1]), ""
    if device not in available:
        raise ValueError(f"`device` {device!r} is not available; use one of {', '.join(available)}")
    return kind, number


def _launched() -> tuple[int, int]:
    """Number of processes started by torchrun, in total and on this node; 1 without torchrun."""
    if not (torch.distributed.is_available() and torch.distributed.is_torchelastic_launched()):
        return 1, 1
    world = int(os.environ.get("WORLD_SIZE", 1))
    return world, int(os.environ.get("LOCAL_WORLD_SIZE", world))
