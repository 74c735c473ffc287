"""A new method of stage 1 and a new peer are one file each: nothing else has to be edited."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import unbend

METHOD = """
from dataclasses import dataclass

from unbend.pretrain.method import Projected
from unbend.rules import FACTOR, POSITIVE, WIDTH, knob
from unbend.training import gather


@dataclass(frozen=True)
class AlignConfig:
    strength: float = knob(2.0, POSITIVE)
    hidden: float = knob(1.0, FACTOR)
    dim: int = knob(8, WIDTH)


class Align(Projected):
    name = "align"
    Settings = AlignConfig

    def forward(self, views):
        a, b = (gather(self.project(x)) for x in views)
        return self.terms(self.settings.strength * (a - b).square().mean(), a)
"""

PEER = """
import numpy as np
from sklearn.base import BaseEstimator, ClusterMixin

from unbend.baselines.registry import peer

__all__ = ["Halves"]


@peer("halves", "cut the samples in two", year=1900)
class Halves(ClusterMixin, BaseEstimator):
    def __init__(self, n_clusters=2, *, random_state=None):
        self.n_clusters, self.random_state = n_clusters, random_state

    def fit(self, X, y=None):
        self.labels_ = np.arange(len(X)) * self.n_clusters // len(X)
        return self
"""

USE = """
import numpy as np
from unbend import MLC
from unbend.baselines import METHODS, Halves

X = np.random.default_rng(0).normal(size=(40, 5))
few = {"pretrain.max_steps": 2, "stage2.max_steps": 1, "pretrain.align.strength": 3.0}
model = MLC(2, pretrain="align", random_state=0, settings=few).fit(X)
print(model.config_.pretrain.align.strength, len(model.labels_))
print([*METHODS][0], METHODS["halves"](2).fit(X).labels_.sum(), Halves.__name__)
try:
    MLC(2, settings={"pretrain.align.strength": -1.0}).fit(X)
except ValueError as error:
    print(error)
"""


def test_a_method_and_a_peer_are_found_by_their_files(tmp_path):
    package = tmp_path / "unbend"
    shutil.copytree(Path(unbend.__file__).parent, package)
    (package / "pretrain" / "methods" / "align.py").write_text(METHOD)
    (package / "baselines" / "halves.py").write_text(PEER)
    done = subprocess.run(
        [sys.executable, "-c", USE],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    first, second, third = done.stdout.strip().splitlines()
    assert first == "3.0 40"
    assert second == "halves 20 Halves"
    assert "pretrain.align.strength" in third
    assert "> 0" in third
