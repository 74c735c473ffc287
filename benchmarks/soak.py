"""Many fits of varied shapes in one process: memory, threads, files and children must not grow.

Run ``python -m benchmarks.soak [--fits 500] [--kernels 128] [--json PATH]``. The first fits load
libraries and fill their pools; the slope is that of the resident memory over the second half.

oneDNN, which torch computes with, keeps the compiled kernels of the last 1,024 shapes. When every
fit has a new shape, that cache grows for the first hundreds of fits. It is bounded here, as a
service of many fits may do by ``ONEDNN_PRIMITIVE_CACHE_CAPACITY``; ``--kernels 1024`` measures
without the bound. unbend does not set it: it belongs to the whole process. ``--shapes 8000`` shows
that the growth ends by itself: it computes as many shapes without unbend.
"""

from __future__ import annotations

import argparse
import gc
import os
import sys
import threading
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.harness import Target, describe_run, write_json
from unbend import MLC

SHORT = {
    "pretrain.epochs": 1, "pretrain.min_steps": 2, "pretrain.max_steps": 3, "stage2.epochs": 1,
    "stage2.min_steps": 2, "stage2.max_steps": 3,
}  # fmt: skip


def resident_mb() -> float:
    """Memory of this process in MB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGESIZE") / 2**20


def counts() -> dict[str, int]:
    """Threads, open files and child processes."""
    task = Path(f"/proc/self/task/{os.getpid()}/children")
    return {
        "threads": threading.active_count(),
        "files": len(os.listdir("/proc/self/fd")),
        "children": len(task.read_text().split()),
    }


def problem(rng: np.random.Generator) -> tuple[np.ndarray, int]:
    """Vectors or small images of a random shape, and a number of clusters."""
    n, k = int(rng.integers(60, 400)), int(rng.integers(2, 8))
    if rng.random() < 0.3:
        side = int(rng.choice([8, 12, 16]))
        shape = (n, side, side) if rng.random() < 0.5 else (n, 3, side, side)
        return rng.integers(0, 256, shape, dtype=np.uint8), k
    p = int(rng.integers(3, 80))
    centres = rng.normal(size=(k, p)) * 5
    dtype = rng.choice([np.float32, np.float64])
    return (centres[rng.integers(0, k, n)] + rng.normal(size=(n, p))).astype(dtype), k


def soak(fits: int, seed: int) -> dict[str, Any]:
    """Fit, predict and forget, again and again; one row per fit."""
    rng, rows = np.random.default_rng(seed), []
    for i in range(fits):
        X, k = problem(rng)
        model = MLC(k, settings=SHORT, random_state=i).fit(X)
        model.predict(X[:20])
        del model, X
        gc.collect()
        rows.append({"fit": i + 1, "mb": resident_mb(), **counts()})
        if (i + 1) % 25 == 0:
            print(rows[-1], flush=True)
    late = rows[len(rows) // 2 :]
    slope = float(np.polyfit([r["fit"] for r in late], [r["mb"] for r in late], 1)[0]) * 100
    quarter = rows[len(rows) // 4]
    grown = {key: rows[-1][key] - quarter[key] for key in ("threads", "files", "children")}
    return {"fits": fits, "slope_mb_per_100": slope, "grown": grown, "rows": rows}


def convolve(count: int, seed: int) -> tuple[Target, str]:
    """Memory while torch alone convolves batches of ever new shapes."""
    sides = range(8, 24)
    shapes = np.array([(b, 3, h, w) for b in range(1, 41) for h in sides for w in sides])
    layer, held = torch.nn.Conv2d(3, 16, 3), []
    with torch.no_grad():
        layer(torch.zeros(40, 3, 24, 24))  # the largest, so that only kernels are added later
        for shape in np.random.default_rng(seed).permutation(shapes)[:count].tolist():
            layer(torch.zeros(shape))
            held.append(resident_mb())
    first, half = min(1024, count // 4), count // 2
    early, late = (held[first - 1] - held[0]) / first, (held[-1] - held[half]) / half
    said = (
        f"{1000 * early:.1f} MB per 1,000 shapes at first, {1000 * late:.1f} over the second half"
    )
    return Target("growth, late beside early", late / max(early, 1e-9), 0.1, False), said


def main() -> int:
    """Soak and report each target; exit with 1 if one is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fits", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kernels", type=int, default=128, help="that oneDNN keeps")
    parser.add_argument("--shapes", type=int, help="convolve this many shapes, by torch's default")
    parser.add_argument("--json", metavar="PATH", help="write all rows here")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.shapes:
        target, said = convolve(options.shapes, options.seed)
        print(f"{said}; {target.name}: {target.measured:.3g} (<= {target.bound:g})")
        return 0 if target.passed else 1
    os.environ["ONEDNN_PRIMITIVE_CACHE_CAPACITY"] = str(options.kernels)  # read at its first use
    warnings.simplefilter("ignore")
    begun = time.perf_counter()
    found = soak(options.fits, options.seed)
    targets = [Target("MB per 100 fits", found["slope_mb_per_100"], 1.0, False)]
    targets += [Target(f"more {key}", n, 0, False) for key, n in found["grown"].items()]
    for target in targets:
        verdict = "ok" if target.passed else "MISSED"
        print(f"{verdict:6} {target.name}: {target.measured:.3g} (<= {target.bound:g})")
    print(f"{options.fits} fits in {time.perf_counter() - begun:.0f} s")
    if options.json:
        tree = {
            **describe_run(),
            "kernels": options.kernels,
            **found,
            "targets": [t.as_dict() for t in targets],
        }
        write_json(options.json, tree)
    return 0 if all(target.passed for target in targets) else 1


if __name__ == "__main__":
    sys.exit(main())
