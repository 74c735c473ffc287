"""Two machines, as network namespaces of one: torchrun over gloo through a virtual cable."""

import csv
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from unbend.runs import check_run, read_labels
from unbend.training import Checkpoints

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not hasattr(os, "geteuid") or os.geteuid() != 0 or shutil.which("ip") is None,
        reason="network namespaces need root and ip",
    ),
]
ROOT = Path(__file__).parents[2]
NODES = ("10.203.7.1", "10.203.7.2")
# The command line with ten checkpoints a second instead of one a minute; it says where it begins.
OFTEN = """
import sys
import unbend.workflows.cluster as workflow
from unbend.cli import main
from unbend.training.record import Record

resume = Record.resume

def told(self, stage, parts):
    found = resume(self, stage, parts)
    print("begins", stage, "after", found.step, "steps", file=sys.stderr, flush=True)
    return found

Record.resume = told
workflow._MINUTES = 1 / 600
main(prog_name="unbend")
"""
CALL = ["cluster", "x.npy", "-k", "4", "-q", "--no-report"]


def ip(*arguments):
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


@pytest.fixture(scope="module")
def cable():
    """Two namespaces with one address each, joined by a veth pair."""
    names = [f"unbend{os.getpid()}{side}" for side in "ab"]
    ends = [f"ub{os.getpid() % 100000}{side}" for side in "ab"]
    try:
        for name in names:
            ip("netns", "add", name)
        ip("link", "add", ends[0], "type", "veth", "peer", "name", ends[1])
        for name, end, address in zip(names, ends, NODES, strict=True):
            ip("link", "set", end, "netns", name)
            ip("-n", name, "addr", "add", f"{address}/24", "dev", end)
            ip("-n", name, "link", "set", end, "up")
            ip("-n", name, "link", "set", "lo", "up")
        yield list(zip(names, ends, strict=True))
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "del", name], capture_output=True)


@pytest.fixture
def folder(tmp_path):
    noise = np.random.default_rng(0).normal(size=(400, 6))
    np.save(tmp_path / "x.npy", np.repeat(np.eye(4, 6) * 9, 100, axis=0) + noise)
    (tmp_path / "often.py").write_text(OFTEN)
    return tmp_path


def environment(folder, cache):
    paths = f"{ROOT / 'src'}{os.pathsep}{ROOT}"
    # Each call has its own cache: no run begins where stage 1 of another one ended.
    own = {"OMP_NUM_THREADS": "1", "PYTHONPATH": paths, "UNBEND_CACHE": str(folder / cache)}
    return {**os.environ, **own}


def start_nodes(cable, folder, port, cache, *arguments):
    """``torchrun`` in both namespaces; one process each."""
    nodes = []
    for rank, (name, end) in enumerate(cable):
        command = ["ip", "netns", "exec", name, sys.executable, "-m", "torch.distributed.run"]
        command += ["--nnodes", "2", "--nproc-per-node", "1", "--node-rank", str(rank)]
        command += ["--master-addr", NODES[0], "--master-port", str(port), "--max-restarts", "0"]
        command += [str(folder / "often.py"), *CALL, *arguments]
        env = environment(folder, cache) | {"GLOO_SOCKET_IFNAME": end}
        with open(folder / f"node{rank}.log", "w") as log:
            nodes.append(
                subprocess.Popen(
                    command, cwd=folder, env=env, stdout=log, stderr=log, start_new_session=True
                )
            )
    return nodes


def finish(nodes, folder):
    codes = [node.wait(timeout=1500) for node in nodes]
    logs = "".join((folder / f"node{rank}.log").read_text()[-2000:] for rank in (0, 1))
    assert codes == [0, 0], logs


def alone(folder, *arguments):
    command = [sys.executable, "-m", "unbend", *CALL, *arguments]
    done = subprocess.run(
        command, cwd=folder, env=environment(folder, "alone"), capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def history(run):
    with open(run / "history.csv", newline="") as file:
        return [float(row["loss"]) for row in csv.DictReader(file)]


def worker_of(node):
    """The training process below ``ip netns exec`` and torchrun."""
    children = Path(f"/proc/{node.pid}/task/{node.pid}/children").read_text().split()
    for child in map(int, children):
        if b"often.py" in Path(f"/proc/{child}/cmdline").read_bytes():
            return child
    raise AssertionError("torchrun has no worker")


def test_two_nodes_are_as_one_process(cable, folder):
    # In float32 the last bits, which depend on the order of a sum, grow over 230 steps of Adam.
    exact = ["--precision", "64-true"]
    finish(start_nodes(cable, folder, 29611, "nodes", *exact, "-o", "nodes"), folder)
    alone(folder, *exact, "-o", "alone")
    check_run(folder / "nodes")
    found, expected = history(folder / "nodes"), history(folder / "alone")
    assert len(found) == len(expected) > 10
    far = np.abs(np.subtract(found, expected)).max()
    print(f"{len(found)} steps, losses differ by at most {far:.1e}")
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    labels = [read_labels(folder / name / "labels.parquet").labels for name in ("nodes", "alone")]
    np.testing.assert_array_equal(*labels)


def test_a_killed_rank_ends_the_other_and_resume_goes_on(cable, folder):
    long = ["--set", "pretrain.min_steps=1500", "--set", "pretrain.epochs=1"]
    nodes = start_nodes(cable, folder, 29612, "nodes", *long, "-o", "run")
    training = folder / "run" / "checkpoints" / "training"
    while not (training.is_dir() and any(training.glob("checkpoint-*"))):  # until it trains
        assert nodes[0].poll() is None, (folder / "node0.log").read_text()[-2000:]
        time.sleep(0.2)
    os.kill(worker_of(nodes[1]), signal.SIGKILL)
    begun = time.monotonic()
    codes = [node.wait(timeout=300) for node in nodes]
    seconds = time.monotonic() - begun
    print(f"all ended {seconds:.1f} s after the kill")
    assert seconds < 60  # torchrun polls its processes; alone on a machine 5 s
    assert 0 not in codes
    assert "unbend: another process of this run ended" in (folder / "node0.log").read_text()
    saved = Checkpoints(training).newest().values
    assert saved["stage"] == "stage 1"
    assert 0 < saved["step"] < 1500  # in the middle of training
    resumed = start_nodes(cable, folder, 29613, "nodes", *long, "-o", "run", "--resume")
    finish(resumed, folder)
    log = (folder / "node0.log").read_text()
    assert f"begins stage 1 after {saved['step']} steps" in log
    assert history(folder / "run")[: saved["step"]] == [row["loss"] for row in saved["history"]]
    alone(folder, *long, "-o", "alone")
    check_run(folder / "run")
    labels = [read_labels(folder / name / "labels.parquet").labels for name in ("run", "alone")]
    np.testing.assert_array_equal(*labels)
