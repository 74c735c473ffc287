"""A pre-training in a process of its own that kills itself; run by test_resume.

``python killed.py METHOD CHECKPOINTS WEIGHTS STEP``: after STEP ticks the process gets SIGKILL, as
by the system; a negative STEP lets it finish and writes the weights of the network.
"""

from __future__ import annotations

import os
import signal
import sys

import torch
from safetensors.torch import save_file

from unbend.algorithm import train_encoder
from unbend.begin import begin
from unbend.config import Config, NetworkConfig, PretrainConfig, ViewConfig
from unbend.devices import make_fabric
from unbend.pretrain.methods.byol import BYOLConfig
from unbend.pretrain.methods.moco import MoCoConfig
from unbend.pretrain.methods.simclr import SimCLRConfig
from unbend.pretrain.methods.swav import SwAVConfig
from unbend.pretrain.methods.vicreg import VICRegConfig
from unbend.progress import Tick
from unbend.training import Checkpoints

EPOCHS, HEAD_STEPS = 3, 3


def config(method: str) -> Config:
    return Config(
        views=ViewConfig(n_neighbors=2, refresh=1),
        network=NetworkConfig(backbone="convnet", width=4, dim=4, head_width=8),
        pretrain=PretrainConfig(
            method=method,
            epochs=EPOCHS,
            head_steps=HEAD_STEPS,
            batch_size=8,
            optimizer="adam",
            lr=1e-2,
            simclr=SimCLRConfig(dim=4),
            moco=MoCoConfig(queue=12, ema=0.9, dim=4),
            vicreg=VICRegConfig(hidden=0.25),
            byol=BYOLConfig(ema=0.9, dim=4),
            swav=SwAVConfig(prototypes=5, dim=4, small_crops=1, small_size=0.7, frozen=0.3),
        ),
    )


def samples() -> torch.Tensor:
    return torch.rand(24, 1, 6, 6, generator=torch.Generator().manual_seed(1))


def train(method: str, checkpoints: str, kill_after: int) -> dict[str, torch.Tensor]:
    ticks = 0

    def progress(tick: Tick) -> None:
        nonlocal ticks
        ticks += 1
        if ticks == kill_after:
            os.kill(os.getpid(), signal.SIGKILL)

    run = begin(
        samples(),
        config(method),
        seed=3,
        fabric=make_fabric("cpu"),
        progress=progress,
        checkpoints=Checkpoints(checkpoints, every=0),
        stage1_only=True,
    )
    trained = train_encoder(run)
    return trained.network.state_dict()


if __name__ == "__main__":
    method, checkpoints, weights, step = sys.argv[1:]
    save_file(train(method, checkpoints, int(step)), weights)
