"""Two processes that share a global batch give the same result as one, for every method."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.pretrain import in_processes

from unbend.pretrain import METHODS

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_the_loss_curve_does_not_depend_on_the_number_of_processes(tmp_path):
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    command += ["--standalone", "-m", "tests.pretrain.in_processes", str(tmp_path)]
    environment = os.environ | {
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}",
    }
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr[-3000:]
    for method in METHODS:
        alone = in_processes.losses(method)
        assert len(alone) == 9 + (method != "tcr") * 3
        for rank in (0, 1):
            found = json.loads((tmp_path / f"{rank}.json").read_text())[method]
            assert found == pytest.approx(alone, rel=1e-5), method
