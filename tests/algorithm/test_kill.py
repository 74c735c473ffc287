"""kill -9 at any moment, resume: the weights of a run that was left alone, to the last bit."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.algorithm.problem import fingerprint, run

ROOT = Path(__file__).parents[2]
SCRIPT = """
import sys
from pathlib import Path
from tests.algorithm.problem import fingerprint, run
print("ready", flush=True)
print(fingerprint(run(Path(sys.argv[1]), changes=dict(eval(sys.argv[2])))), flush=True)
"""


def start(folder: Path, changes: dict) -> subprocess.Popen:
    env = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", SCRIPT, str(folder), repr(changes)]
    return subprocess.Popen(command, cwd=ROOT, env=env, stdout=subprocess.PIPE, text=True)


def killed(folder: Path, changes: dict, seen: set[Path], rng: random.Random) -> None:
    """Kill a run at a random moment after its first new checkpoint."""
    process = start(folder, changes)
    assert process.stdout.readline() == "ready\n"
    deadline = time.monotonic() + 120
    while not set(folder.glob("checkpoint-*")) - seen and time.monotonic() < deadline:
        time.sleep(0.002)
    time.sleep(rng.uniform(0, 0.15))
    process.kill()
    process.communicate()
    assert process.returncode in (-signal.SIGKILL, 0)


@pytest.mark.parametrize("kills", [2, pytest.param(20, marks=pytest.mark.slow)])
def test_killed_at_random_moments(tmp_path, kills):
    changes = {"pretrain.max_steps": 15 * kills, "stage2.max_steps": 15 * kills}
    changes |= {"pretrain.min_steps": 15 * kills, "stage2.min_steps": 15 * kills}
    expected = fingerprint(run(changes=changes))
    rng = random.Random(0)
    for _ in range(kills):
        killed(tmp_path, changes, set(tmp_path.glob("checkpoint-*")), rng)
    process = start(tmp_path, changes)
    out, _ = process.communicate(timeout=300)
    assert out.split() == ["ready", expected]
    names = sorted(path.name for path in tmp_path.iterdir())
    assert len(names) == 2
    assert all(name.startswith("checkpoint-") for name in names)
