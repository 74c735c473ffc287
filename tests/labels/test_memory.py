"""The matrix-free and the landmark path never hold anything of size n × n."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

SCRIPT = """
import sys
from pathlib import Path
from tests.generators.subspaces import union_of_subspaces
from unbend.labels import label_codes

def peak():
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) * 1024

method, n = sys.argv[1], int(sys.argv[2])
small = union_of_subspaces(3000, 10, d=32)
label_codes(small.C, small.Z, 10, eta=0.175, method=method)  # one-time buffers of the libraries
data = union_of_subspaces(n, 10, d=32)
before = peak()
label_codes(data.C, data.Z, 10, eta=0.175, method=method)
print(peak() - before)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads the high-water mark of Linux")
@pytest.mark.parametrize(("method", "n"), [("blocks", 14_000), ("landmarks", 100_000)])
def test_memory_is_far_below_the_square(method: str, n: int) -> None:
    command = [sys.executable, "-c", SCRIPT, method, str(n)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    extra = int(done.stdout)
    assert extra < 4 * n * n / 8  # an eighth of Γ in float32
    assert extra < 4 * n * (32 + 10) * 4 + 100e6  # a few times n (d + k), and blocks
