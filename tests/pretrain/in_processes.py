"""What every process of `torchrun -m tests.pretrain.in_processes OUT` does; see test_processes."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from tests.pretrain import killed

from unbend.algorithm import train_encoder
from unbend.begin import begin
from unbend.devices import make_fabric
from unbend.pretrain import METHODS


def losses(method: str) -> list[float]:
    """The loss curve of a training in float64, where rounding cannot hide a mistake."""
    config = killed.config(method)
    fabric = make_fabric("cpu", "64-true")
    trained = train_encoder(begin(killed.samples().double(), config, seed=3, fabric=fabric))
    return [row["loss"] for row in trained.history]


if __name__ == "__main__":
    torch.set_num_threads(1)
    found = {method: losses(method) for method in METHODS}
    (Path(sys.argv[1]) / f"{dist.get_rank()}.json").write_text(json.dumps(found))
