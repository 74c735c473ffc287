"""Resuming after kill -9 at any moment is bit-equal to an uninterrupted run."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork and SIGKILL")
@pytest.mark.parametrize("kills", [4, pytest.param(20, marks=pytest.mark.slow)])
def test_resume_after_kills_at_random_moments(tmp_path, kills):
    env = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
    command = [sys.executable, "-m", "tests.algorithm.killing", str(tmp_path), str(kills)]
    subprocess.run(command, cwd=ROOT, env=env, check=True, timeout=500)
    whole, resumed = ((tmp_path / name).read_text() for name in ("whole", "resumed"))
    assert len(whole) == 64
    assert resumed == whole
    names = sorted(path.name for path in (tmp_path / "kept").iterdir())
    assert len(names) == 2
    assert all(name.startswith("checkpoint-") for name in names)
