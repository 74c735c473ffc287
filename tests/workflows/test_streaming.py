"""Pieces of arrays: all rows, in order, and memory that stays."""

import subprocess
import sys

import numpy as np
import pytest

from unbend.workflows.streaming import chunks


@pytest.mark.parametrize("shape", [(1, 3), (8192, 2), (20_000, 70), (700, 3, 64, 64)])
def test_pieces_are_the_rows_in_order(tmp_path, shape):
    X = np.arange(np.prod(shape), dtype=np.int32).reshape(shape)
    np.save(tmp_path / "x.npy", X)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    for array in (X, mapped):
        parts = list(chunks(array))
        assert [where.start for where, _ in parts][1:] == [where.stop for where, _ in parts][:-1]
        assert (np.concatenate([part for _, part in parts]) == X).all()


def test_forget_pages_keeps_writes_to_private_maps(tmp_path):
    np.save(tmp_path / "x.npy", np.zeros((9, 2)))
    X = np.load(tmp_path / "x.npy", mmap_mode="c")
    X[:] = 7
    assert all((part == 7).all() for _, part in chunks(X))
    assert (X == 7).all()


MEASURE = """
import sys
import numpy as np
from unbend.workflows import predict

def peak():
    with open("/proc/self/status") as file:
        return int(next(line for line in file if line.startswith("VmHWM")).split()[1]) / 1024

for name in ("small", "large"):
    predict("run", f"{name}.npy", out=f"{name}.csv")
    print(peak())
"""


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_predict_takes_no_more_memory_for_more_rows(tmp_path):
    """100 MB more on disk, less than a third of that in memory, most of it buffers filling up."""
    from unbend import MLC

    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 64)) + np.repeat(np.eye(3, 64) * 9, 100, axis=0)
    MLC(3, random_state=0, pretrain_epochs=2, epochs=2).fit(X).save(tmp_path / "run")
    np.save(tmp_path / "small.npy", np.tile(X, (150, 1)).astype(np.float32))
    np.save(tmp_path / "large.npy", np.tile(X, (1450, 1)).astype(np.float32))
    done = subprocess.run(
        [sys.executable, "-c", MEASURE], cwd=tmp_path, capture_output=True, text=True, timeout=500
    )
    assert done.returncode == 0, done.stderr
    small, large = map(float, done.stdout.split())
    assert large - small < 33
    with open(tmp_path / "large.csv") as file:
        assert sum(1 for _ in file) == 435_001
