"""kill -9 in the middle of every method, then resume: bit-equal weights."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from tests.pretrain import killed

from unbend.pretrain import METHODS

ROOT = Path(__file__).parents[2]


def start(method: str, folder: Path, kill_after: int) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "tests.pretrain.killed", method]
    command += [str(folder / "checkpoints"), str(folder / "weights"), str(kill_after)]
    environment = {**os.environ, "OMP_NUM_THREADS": str(torch.get_num_threads())}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, check=False)


@pytest.mark.parametrize("method", METHODS)
def test_a_killed_training_ends_with_the_same_weights(method, tmp_path):
    expected = killed.train(method, str(tmp_path / "whole"), -1)
    # In the middle of the method: the state of step 5 is the last on disk. Step 10 is in the
    # start of the head, for the methods that have one.
    for attempt in (5, 5) if method != "tcr" else (5,):
        died = start(method, tmp_path, attempt)
        assert died.returncode == -signal.SIGKILL, died.stderr.decode()
        assert any((tmp_path / "checkpoints").glob("checkpoint-*"))
    found = killed.train(method, str(tmp_path / "checkpoints"), -1)
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        assert torch.equal(found[name], value), name


def test_the_processes_write_what_this_one_computes(tmp_path):
    """The other half of the promise: another process, the same weights."""
    done = start("byol", tmp_path, -1)
    assert done.returncode == 0, done.stderr.decode()
    expected = killed.train("byol", str(tmp_path / "here"), -1)
    found = load_file(tmp_path / "weights")
    assert all(torch.equal(found[name], value) for name, value in expected.items())


def test_checkpoints_of_another_method_are_refused(tmp_path):
    killed.train("simclr", str(tmp_path), -1)
    with pytest.raises(ValueError, match=r"`pretrain\.method` = 'simclr', not 'moco'"):
        killed.train("moco", str(tmp_path), -1)
