"""A run survives standard streams that are closed, full or not read."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

from unbend.runs import check_run

QUICK = "--set pretrain.epochs=1 --set pretrain.min_steps=2 --set stage2.epochs=1 "
QUICK += "--set stage2.min_steps=2 -k 3 --no-report"

pytestmark = pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")


@pytest.fixture
def shell(tmp_path, vectors):
    np.save(tmp_path / "x.npy", vectors)
    (tmp_path / "unbend").write_text(f'#!/bin/sh\nexec {sys.executable} -m unbend "$@"\n')
    (tmp_path / "unbend").chmod(0o755)
    environment = {**os.environ, "UNBEND_CACHE": str(tmp_path / "cache"), "OMP_NUM_THREADS": "1"}

    def call(command):
        return subprocess.run(
            ["bash", "-o", "pipefail", "-c", command],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=300,
        )

    return call


@pytest.mark.parametrize(
    "ending", ["2>/dev/full", "2>&1 | head -1", pytest.param("2>&1 | true", marks=pytest.mark.slow)]
)
def test_closed_progress_stream_is_ignored(shell, tmp_path, ending):
    done = shell(f"./unbend cluster x.npy {QUICK} -o run {ending}")
    assert done.returncode == 0, done.stderr
    check_run(tmp_path / "run")
    assert (tmp_path / "run" / "labels.csv").is_file()
    assert "Traceback" not in done.stderr


def test_progress_never_goes_to_standard_output(shell, tmp_path):
    done = shell(f"./unbend cluster x.npy {QUICK} -o run --json 2>&-")
    assert json.loads(done.stdout)["n_samples"] == 120
    check_run(tmp_path / "run")


def test_a_result_that_cannot_be_printed_is_named(shell, tmp_path):
    done = shell(f"./unbend cluster x.npy {QUICK} -o run -q > /dev/full")
    assert done.returncode == 2
    words = "cannot print the result (No space left on device); the work itself is done"
    assert done.stderr == f"unbend: {words}\n"
    check_run(tmp_path / "run")


def test_errors_without_a_stream_keep_their_exit_code(shell):
    done = shell("./unbend cluster nothing.npy 2>&-")
    assert (done.returncode, done.stdout) == (2, "")
    assert shell("./unbend cluster x.npy --nope 2>/dev/full").returncode == 2
