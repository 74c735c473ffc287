"""Two processes that share a global batch give the same result as one process."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.algorithm import in_processes
from tests.algorithm.problem import STEPS
from tests.algorithm.test_resume import stop_at

from unbend.training import Checkpoints

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    """Results of both processes, really started by torchrun over gloo."""
    folder = tmp_path_factory.mktemp("processes")
    # A run of one process that was interrupted, for two to go on with.
    with pytest.raises(KeyboardInterrupt):
        in_processes.run(folder / "kept", progress=stop_at("stage 1", 9))
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    command += ["--standalone", "-m", "tests.algorithm.in_processes", str(folder)]
    env = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    results = [json.loads((folder / f"{rank}.json").read_text()) for rank in (0, 1)]
    return results, folder


@pytest.fixture(scope="module")
def one():
    return {name: in_processes.report(**case) for name, case in in_processes.CASES.items()}


def test_gradients_and_statistics_of_one_step(two):
    alone = in_processes.toy(9)
    for rank in (0, 1):
        found = two[0][rank]["toy"]
        for key in ("loss", "eval"):
            assert found[key] == pytest.approx(alone[key], rel=1e-12)
        for part in ("grads", "buffers"):
            assert found[part].keys() == alone[part].keys()
            for name, value in alone[part].items():
                np.testing.assert_allclose(
                    found[part][name], value, rtol=1e-9, atol=1e-12, err_msg=name
                )


@pytest.mark.parametrize("case", in_processes.CASES)
def test_the_same_loss_curve(two, one, case):
    rows, expected = two[0][0][case]["history"], one[case]["history"]
    assert len(rows) == len(expected) == 3 * STEPS
    for name in ("loss", "R", "lr"):
        found = np.array([row[name] for row in rows])
        np.testing.assert_allclose(found, [row[name] for row in expected], rtol=1e-5, atol=1e-5)
    assert two[0][0][case]["labels"] == one[case]["labels"]
    np.testing.assert_allclose(two[0][0][case]["Z"], one[case]["Z"], atol=1e-3)


def test_processes_agree_to_the_last_bit(two):
    assert two[0][0] == two[0][1]


def test_several_processes_resume_a_single_process_run(two, one):
    rows = two[0][0]["kept"]["history"]
    np.testing.assert_allclose(
        [row["loss"] for row in rows],
        [row["loss"] for row in one["vectors"]["history"]],
        rtol=1e-5,
        atol=1e-5,
    )
    assert [r["loss"] for r in rows[:9]] == [r["loss"] for r in one["vectors"]["history"][:9]]


def test_only_the_first_process_writes_and_all_resume(two):
    results, folder = two
    assert len(list((folder / "kept").iterdir())) == 2
    finished = Checkpoints(folder / "kept").newest().values["finished"]
    assert finished == ["stage 1", "stage 2", "stage 2, eta 2"]
    assert results[0]["again"] == results[0]["kept"]
