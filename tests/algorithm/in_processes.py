"""What every process of `torchrun -m tests.algorithm.in_processes OUT` does; see its test."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from tests.algorithm.problem import run
from torch import nn

from unbend.devices import make_fabric
from unbend.training import gather, share, synchronize
from unbend.training.distributed import average_gradients

# 25 samples per batch cannot be halved: the shares differ in size.
CASES = {
    "vectors": {},
    # Twelve steps of Adam on batches of 25 make much of the last bits of float32: in float64 the
    # curves show whether the two are the same computation.
    "images": {"kind": "images", "precision": "64-true"},
    "accumulated": {"changes": {"pretrain.accumulate": 2, "pretrain.max_norm": 1.0}},
}


class Toy(nn.Module):
    """Convolution, both kinds of batch normalisation, and weights after the gathering."""

    def __init__(self) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            self.conv = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU())
            self.head = nn.Sequential(nn.Linear(144, 6), nn.BatchNorm1d(6, affine=False))
            self.after = nn.Linear(6, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        Z = gather(self.head(self.conv(share(x)).flatten(1)))
        out = self.after(Z)
        return torch.logdet(torch.eye(5).to(Z) + out.T @ out / len(out))  # no sum over samples


def toy(n: int) -> dict:
    """Loss, gradients and running statistics of one batch of n in float64."""
    net = synchronize(Toy()).double()
    x = torch.randn(n, 1, 8, 8, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    loss = net(x)
    loss.backward()
    average_gradients(net.parameters())
    grads = {name: p.grad.tolist() for name, p in net.named_parameters()}
    return {
        "loss": loss.item(),
        "grads": grads,
        "buffers": {k: v.tolist() for k, v in net.named_buffers()},
        "eval": net.eval()(x).item(),
    }


def report(**options: object) -> dict:
    solution = run(**options)
    return {
        "history": solution.history,
        "Z": solution.Z.tolist(),
        "labels": solution.labels.labels.tolist(),
        "weights": {k: v.tolist() for k, v in solution.network.state_dict().items()},
    }


def main(folder: Path) -> None:
    make_fabric("cpu")
    results = {"toy": toy(9)} | {name: report(**case) for name, case in CASES.items()}
    kept = folder / "kept"
    results["kept"] = report(path=kept, every=60.0)
    results["again"] = report(path=kept, every=60.0)
    (folder / f"{dist.get_rank()}.json").write_text(json.dumps(results))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
