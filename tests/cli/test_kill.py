"""``kill -9`` and Ctrl-C with real processes; tests/workflows has the quick versions."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from tests.interruption import contents, names


def start(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    code = "from unbend.cli import main; main(prog_name='unbend')"
    # A cache for each run: none begins where stage 1 of another one ended.
    cache = folder / "cache" / arguments[arguments.index("-o") + 1]
    environment = {**os.environ, "UNBEND_CACHE": str(cache), "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(folder: Path, *arguments: str) -> str:
    process = start(folder, *arguments)
    out, err = process.communicate(timeout=900)
    assert process.returncode == 0, err
    return out


def whole_after_kills(tmp_path: Path, call: list[str], moments: list[float]) -> None:
    begun = time.monotonic()
    finish(tmp_path, *call, "-o", "whole")
    length = time.monotonic() - begun
    for number, share in enumerate(moments):
        out = f"killed{number}"
        process = start(tmp_path, *call, "-o", out)
        time.sleep(share * length)
        process.kill()
        process.communicate()
        finish(tmp_path, *call, "-o", out, "--resume")
        assert contents(tmp_path / out) == contents(tmp_path / "whole"), share
        assert names(tmp_path / out) == names(tmp_path / "whole")


@pytest.fixture
def blobs(tmp_path):
    """Four far groups of sixty."""
    noise = np.random.default_rng(0).normal(size=(240, 4))
    np.save(tmp_path / "blobs.npy", np.repeat(np.eye(4) * 9, 60, axis=0) + noise)


@pytest.mark.slow
def test_resume_after_twenty_random_kills_on_digits(tmp_path):
    rng = random.Random(0)
    call = ["cluster", "digits", "-k", "10", "-q"]
    whole_after_kills(tmp_path, call, [rng.uniform(0.02, 1.0) for _ in range(20)])


def test_ctrl_c_saves_and_says_how_to_continue(tmp_path, blobs):
    long = ["--set", "pretrain.min_steps=3000"]
    call = ["cluster", "blobs.npy", "-k", "4", *long, "--no-report", "-o", "run"]
    process = start(tmp_path, *call)
    assert process.stderr is not None
    for line in process.stderr:  # wait until it trains
        if line.startswith("stage 1"):
            break
    process.send_signal(signal.SIGINT)
    rest = process.stderr.read()
    assert process.wait(timeout=300) == 130
    assert rest.splitlines()[-1].startswith("unbend: interrupted; the work so far is saved")
    assert "--no-report -o run --resume" in rest
    assert "Traceback" not in rest
    kept = names(tmp_path / "run")
    assert "checkpoints/run.json" in kept
    assert any(name.endswith("state.safetensors") for name in kept)
