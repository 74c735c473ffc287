"""Shared by all benchmarks: fair timing, measured memory, targets, and the environment."""

from __future__ import annotations

import ctypes
import json
import os
import platform
import statistics
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

__all__ = [
    "Target",
    "describe_run",
    "gemm_rate",
    "peak_extra_memory",
    "time_in_turns",
    "write_json",
]


def time_in_turns(
    contestants: Mapping[str, Callable[[], object]],
    rounds: int,
    warm_up: bool = True,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, float]:
    """Median seconds of each contestant; they take turns, so a busy machine slows all alike."""
    if warm_up:
        for run in contestants.values():
            run()
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(rounds):
        for name, run in contestants.items():
            _synchronize()
            start = clock()
            run()
            _synchronize()
            seconds[name].append(clock() - start)
    return {name: statistics.median(values) for name, values in seconds.items()}


def peak_extra_memory(run: Callable[[], object]) -> int | None:
    """Bytes by which memory rises above its level before ``run``, at the highest point.

    On a GPU this is the allocator's record; elsewhere the kernel's high-water mark of resident
    memory, which includes the workspaces of BLAS and LAPACK. None where the kernel has no
    resettable mark (only Linux has).
    """
    run()  # one-time allocations, such as thread buffers, are not the contestant's
    if torch.cuda.is_available():
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        run()
        return torch.cuda.max_memory_allocated() - before
    try:
        _return_freed_memory()
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return None
    before = _status_bytes("VmRSS")
    run()
    return max(0, _status_bytes("VmHWM") - before)


def gemm_rate(rounds: int = 5, n: int = 2048, dtype: torch.dtype = torch.float32) -> float:
    """Floating-point operations per second of a square n×n matrix product on this machine."""
    A = torch.randn(n, n, dtype=dtype, generator=torch.Generator().manual_seed(0))
    seconds = time_in_turns({"gemm": lambda: A @ A}, rounds)["gemm"]
    return 2 * n**3 / seconds


@dataclass(frozen=True)
class Target:
    """A bound set beforehand and the figure measured against it."""

    name: str
    measured: float | None
    bound: float
    at_least: bool

    @property
    def passed(self) -> bool | None:
        """Whether the bound holds; None if it could not be measured."""
        if self.measured is None:
            return None
        return self.measured >= self.bound if self.at_least else self.measured <= self.bound

    def as_dict(self) -> dict[str, Any]:
        """Return the target with its verdict as plain data."""
        return {**asdict(self), "passed": self.passed}


def describe_run() -> dict[str, Any]:
    """Describe machine, software and commit, so that results can be compared."""
    return {
        "cpu": _cpu_name(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "load_average": [round(x, 2) for x in os.getloadavg()],
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "torch": torch.__version__,
        "commit": _git("rev-parse", "HEAD"),
        "uncommitted_changes": bool(_git("status", "--porcelain", "--", "src", "benchmarks")),
    }


def write_json(path: str | Path, result: Mapping[str, Any]) -> None:
    """Write ``result`` beside a description of the run."""
    text = json.dumps({"run": describe_run(), **result}, indent=2)
    Path(path).write_text(text + "\n")


def _synchronize() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def _return_freed_memory() -> None:
    """Hand freed heap back to the system, or a later run could reuse it and seem to need none."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def _status_bytes(field: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    raise OSError(f"no field {field} in /proc/self/status")


def _cpu_name() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or "unknown"


def _git(*arguments: str) -> str | None:
    root = Path(__file__).parents[1]
    try:
        done = subprocess.run(
            ["git", *arguments], cwd=root, capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()
