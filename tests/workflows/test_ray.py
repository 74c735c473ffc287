"""``--engine ray`` on a local cluster of two workers, one of which is killed."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from unbend.runs import read_labels
from unbend.workflows import cluster, predict

pytest.importorskip("ray")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/self").exists(), reason="reads /proc"),
]
QUICK = {"pretrain.epochs": 1, "pretrain.min_steps": 2, "stage2.epochs": 1, "stage2.min_steps": 2}
N_SHARDS = 400


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A run and 400 shards of nine rows."""
    monkeypatch.setenv("UNBEND_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("RAY_worker_niceness", "0")  # Ray's 15 starves on a busy machine
    rng = np.random.default_rng(0)
    X = np.repeat(np.eye(3) * 9, 3 * N_SHARDS, axis=0) + rng.normal(size=(9 * N_SHARDS, 3))
    X = rng.permutation(X)
    np.save(tmp_path / "x.npy", X)
    (tmp_path / "shards").mkdir()
    for i, part in enumerate(np.array_split(X, N_SHARDS)):
        table = pa.table({f"c{j}": part[:, j] for j in range(3)})
        pq.write_table(table, tmp_path / "shards" / f"{i:04d}.parquet")
    cluster(X[:90], out=tmp_path / "run", n_clusters=3, settings=QUICK, report=False)
    return tmp_path


def start(folder, *more):
    command = [sys.executable, "-m", "unbend", "predict", "run", "shards", "-o", "out", "-q"]
    command += ["--engine", "ray", "--workers", "2", "--json", *more]
    return subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def parts(folder):
    return {p.name: p.stat().st_mtime_ns for p in (folder / "out").glob("part-*.parquet")}


def wait_for_parts(folder, process, least):
    while len(parts(folder)) < least:
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.005)


def workers_of(process):
    """Processes of Ray that do units, among the descendants of the command."""
    parents, names = {}, {}
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            fields = dict(line.split(":\t", 1) for line in status.read_text().splitlines())
            names[int(fields["Pid"])] = (status.parent / "cmdline").read_text()
            parents[int(fields["Pid"])] = int(fields["PPid"])
        except (OSError, ValueError, KeyError):
            continue
    found = []
    for pid, name in names.items():
        above = pid
        while above not in (0, process.pid):
            above = parents.get(above, 0)
        if above == process.pid and name.startswith("ray::MapWorker"):
            found.append(pid)
    return found


def check(folder):
    """Every row exactly once, with the label of one piece."""
    predict(folder / "run", str(folder / "x.npy"), out=folder / "whole.parquet")
    files = sorted((folder / "out").glob("part-*.parquet"))
    assert len(files) == N_SHARDS
    found = np.concatenate([pq.read_table(path)["cluster"].to_numpy() for path in files])
    np.testing.assert_array_equal(found, read_labels(folder / "whole.parquet").labels)
    assert not list((folder / "out").glob(".*.tmp"))
    assert json.loads((folder / "out" / "manifest.json").read_text())["n_samples"] == len(found)


def test_a_killed_worker_costs_nothing(folder):
    process = start(folder)
    wait_for_parts(folder, process, 5)
    (victim, *_) = workers_of(process)
    os.kill(victim, signal.SIGKILL)
    out, err = process.communicate(timeout=900)
    assert process.returncode == 0, err
    assert json.loads(out)["n_computed"] == N_SHARDS
    check(folder)


def test_a_killed_job_is_resumed(folder):
    process = start(folder)
    wait_for_parts(folder, process, 5)
    process.kill()
    process.communicate()
    time.sleep(3)  # workers without a driver end
    before = parts(folder)
    assert 5 <= len(before) < N_SHARDS
    again = start(folder)
    out, err = again.communicate(timeout=900)
    assert again.returncode == 2
    assert "holds shards already; pass --resume" in err
    again = start(folder, "--resume")
    out, err = again.communicate(timeout=900)
    assert again.returncode == 0, err
    assert json.loads(out)["n_computed"] == N_SHARDS - len(before)
    after = parts(folder)
    assert {name: after[name] for name in before} == before  # not computed again
    check(folder)
