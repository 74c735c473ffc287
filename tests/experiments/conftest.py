"""A problem so small that every experiment runs in seconds."""

import numpy as np
import pytest

from unbend.config import PRESETS
from unbend.experiments.problem import Problem
from unbend.sources import load_named

TINY = {
    "network.backbone": "convnet",
    "network.width": 4,
    "network.dim": 8,
    "network.head_width": 16,
    "views.n_neighbors": 3,
    "pretrain.epochs": 1,
    "pretrain.min_steps": 3,
    "stage2.eta": 0.175,
    "labels.join": "codes",
    "stage2.epochs": 2,
    "stage2.min_steps": 2,
    "stage2.batch_size": 60,
}


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    """No test reads or writes what other runs kept."""
    monkeypatch.setenv("UNBEND_CACHE", str(tmp_path / "cache"))


@pytest.fixture(scope="session")
def tiny():
    """Three classes of digits, 40 samples each, and a network of a few neurons."""
    digits = load_named("digits")
    rows = np.concatenate([np.flatnonzero(digits.y == c)[:40] for c in range(3)])
    config = PRESETS["images"].override(TINY)
    return Problem("tiny", "part", digits.X[rows], digits.y[rows], config)
