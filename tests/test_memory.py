"""Freed memory goes back to the system after a fit."""

import subprocess
import sys
from pathlib import Path

import pytest

# Blocks below the size that glibc maps one by one; every hundredth stays, so the rest are holes.
SCRIPT = """
import ctypes
from pathlib import Path
from unbend.memory import release_freed

libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
libc.free.argtypes = [ctypes.c_void_p]

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1])

blocks = [libc.malloc(60_000) for _ in range(2000)]
for block in blocks:
    ctypes.memset(block, 1, 60_000)
for i, block in enumerate(blocks):
    if i % 100:
        libc.free(block)
before = resident()
release_freed()
print(before - resident())
"""


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads /proc")
def test_release_freed_gives_holes_in_the_heap_back() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    freed_mb = int(done.stdout) * 4096 / 2**20
    assert freed_mb > 80  # of 113 MB that were freed
