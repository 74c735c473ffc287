"""kill -9 in the middle of every method, then resume: bit-equal weights."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from tests.interruption import one_thread  # noqa: F401
from tests.pretrain import killed

from unbend.pretrain import METHODS

ROOT = Path(__file__).parents[2]


def killed_by(method: str, checkpoints: Path, after: int) -> int:
    """The signal that ended a process of its own, which kills itself after so many steps."""
    child = os.fork()
    if child == 0:
        try:
            killed.train(method, str(checkpoints), after)
        finally:
            os._exit(1)
    return os.WTERMSIG(os.waitpid(child, 0)[1])


@pytest.mark.parametrize("method", METHODS)
def test_resume_after_kill_is_bit_equal(method, tmp_path):
    """Killed in the method itself, and again in the start of the head where there is one."""
    expected = killed.train(method, str(tmp_path / "whole"), -1)
    for after in (5,) if method == "tcr" else (5, 6):
        assert killed_by(method, tmp_path / "cut", after) == signal.SIGKILL
        assert any((tmp_path / "cut").glob("checkpoint-*"))
    found = killed.train(method, str(tmp_path / "cut"), -1)
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        assert torch.equal(found[name], value), name


def test_resume_in_another_process_is_bit_equal(tmp_path):
    command = [sys.executable, "-m", "tests.pretrain.killed", "byol"]
    command += [str(tmp_path / "there"), str(tmp_path / "weights"), "-1"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    expected = killed.train("byol", str(tmp_path / "here"), -1)
    found = load_file(tmp_path / "weights")
    assert all(torch.equal(found[name], value) for name, value in expected.items())


def test_checkpoints_of_another_method_are_rejected(tmp_path):
    killed.train("simclr", str(tmp_path), -1)
    with pytest.raises(ValueError, match=r"`pretrain\.method` = 'simclr', not 'moco'"):
        killed.train("moco", str(tmp_path), -1)
