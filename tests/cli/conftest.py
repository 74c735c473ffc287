"""A command line to call in this process, and small inputs for it."""

import os

import numpy as np
import pytest
from click.testing import CliRunner

from unbend.cli import main

# Enough to write every file, far too little to learn much.
QUICK = [
    "--set", "pretrain.epochs=2", "--set", "pretrain.min_steps=2",
    "--set", "stage2.epochs=2", "--set", "stage2.min_steps=2",
]  # fmt: skip


@pytest.fixture
def quick():
    """Flags that make training a matter of a second."""
    return list(QUICK)


@pytest.fixture
def unbend(tmp_path, monkeypatch):
    """Call the command line in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("UNBEND_CACHE", str(tmp_path / ".cache"))

    def call(*arguments):
        return CliRunner().invoke(main, [str(a) for a in arguments], prog_name="unbend")

    return call


@pytest.fixture(scope="session")
def vectors():
    """Four far groups of thirty."""
    rng = np.random.default_rng(0)
    return np.repeat(np.eye(4) * 9, 30, axis=0) + rng.normal(size=(120, 4))


@pytest.fixture(scope="session")
def trained(tmp_path_factory, vectors):
    """A finished run on the vectors; copy it before changing it."""
    folder = tmp_path_factory.mktemp("trained")
    np.save(folder / "blobs.npy", vectors)
    here = os.getcwd()
    os.chdir(folder)
    try:
        done = CliRunner().invoke(
            main, ["cluster", "blobs.npy", "-k", "4", "-o", "run", "-q", *QUICK]
        )
    finally:
        os.chdir(here)
    assert done.exit_code == 0, done.output
    return folder / "run"
