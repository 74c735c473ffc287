"""Peak memory of clustering a table of a million rows: ``python -m benchmarks.large_table``."""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

__all__ = ["write_table"]

_PART = 100_000


def write_table(path: Path, n: int, width: int = 64, k: int = 10) -> None:
    """Write n rows of k groups with an id and a label, part by part."""
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(k, width)) * 3
    writer = None
    for start in range(0, n, _PART):
        size = min(_PART, n - start)
        y = rng.integers(0, k, size)
        X = (centres[y] + rng.normal(size=(size, width))).astype(np.float32)
        columns = {"id": np.arange(start, start + size)}
        table = pa.table(columns | {f"x{j}": X[:, j] for j in range(width)} | {"label": y})
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table)
    if writer is not None:
        writer.close()


def main() -> None:
    """Write the table, cluster it in a process of its own, print time and memory."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    rows = parser.parse_args().rows
    with tempfile.TemporaryDirectory() as folder:
        write_table(Path(folder) / "big.parquet", rows)
        command = [sys.executable, "-m", "unbend", "cluster", "big.parquet", "-k", "10"]
        start = time.perf_counter()
        subprocess.run([*command, "--labels", "label", "-o", "run", "-q"], cwd=folder, check=True)
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**20
    print(f"{rows} rows: {time.perf_counter() - start:.0f} s, peak {peak:.2f} GB")


if __name__ == "__main__":
    main()
