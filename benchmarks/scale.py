"""From end to end on one machine: cluster and predict, up to ten million rows.

Three sections, each case in processes of its own, so that peak memory is its own:

vectors
    10⁵, 10⁶ and 10⁷ rows of width 64 in a memory-mapped ``.npy`` file: ``unbend cluster``, then
    ``unbend predict`` of all rows; seconds of each stage, growth with n, peak memory.
folder
    A folder of 200,000 small images, each a file of its own.
clusters
    1,000 clusters in 10⁵ rows.

Run ``python -m benchmarks.scale [--quick] [--only vectors folder clusters] [--budget quick]
[--json PATH]``. CPU seconds are counted as well as those of the clock; growth is that of the CPU
seconds, which other work on the machine changes little.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.format import open_memmap
from PIL import Image

from benchmarks.harness import Target, describe_run, write_json

WIDTH, GROUPS, RANK = 64, 20, 4
Row = dict[str, Any]


def write_vectors(path: Path, n: int, k: int = GROUPS, seed: int = 0) -> None:
    """Rows near k random subspaces, written piece by piece; labels beside them."""
    rng = np.random.default_rng(seed)
    bases = rng.normal(size=(k, RANK, WIDTH)).astype(np.float32)
    X = open_memmap(path, "w+", np.float32, (n, WIDTH))
    y = np.empty(n, np.int64)
    for start in range(0, n, 100_000):
        stop = min(start + 100_000, n)
        y[start:stop] = rng.integers(0, k, stop - start)
        codes = rng.normal(size=(stop - start, RANK)).astype(np.float32)
        rows = np.einsum("ir,irp->ip", codes, bases[y[start:stop]])
        X[start:stop] = rows + 0.1 * rng.normal(size=rows.shape).astype(np.float32)
    X.flush()
    np.save(path.with_suffix(".y.npy"), y)


def write_images(folder: Path, n: int, seed: int = 0) -> None:
    """Small images in ten colours, in folders of a thousand."""
    rng = np.random.default_rng(seed)
    for i in range(n):
        place = folder / f"{i // 1000:04d}"
        if i % 1000 == 0:
            place.mkdir(parents=True)
        pixels = rng.integers(0, 60, (16, 16, 3), dtype=np.uint8)
        pixels[..., i % 3] += np.uint8(15 * (i % 10))
        Image.fromarray(pixels).save(place / f"{i:07d}.png", compress_level=1)


class Ended(NamedTuple):
    """How a command ended: seconds, CPU seconds with its children, peak memory, what it printed."""

    seconds: float
    cpu: float
    peak_gb: float
    result: dict[str, Any]


def unbend(folder: Path, *arguments: object) -> Ended:
    """Run a command in a process of its own."""
    command = [sys.executable, "-m", "unbend", *map(str, arguments), "--json", "-q"]
    environment = {**os.environ, "UNBEND_CACHE": str(folder / "cache")}
    begun = time.perf_counter()
    child = subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE)
    assert child.stdout is not None
    out = child.stdout.read()
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise RuntimeError(f"{' '.join(map(str, arguments))} ended with {child.returncode}")
    return Ended(
        time.perf_counter() - begun,
        usage.ru_utime + usage.ru_stime,
        usage.ru_maxrss * 1024 / 1e9,
        json.loads(out),
    )


def case(name: str, source: str, k: int, folder: Path, *more: object) -> Row:
    """Cluster, then predict all samples again."""
    fit = unbend(folder, "cluster", source, "-k", k, "-o", "run", "--no-report", *more)
    said = unbend(folder, "predict", "run", source, "-o", "labels.parquet")
    stages = json.loads((folder / "run" / "manifest.json").read_text())["seconds"]
    row = {"case": name, "n": fit.result["n_samples"], "k": k}
    row |= {"cluster_s": fit.seconds, "cluster_cpu_s": fit.cpu}
    row |= {"predict_s": said.seconds, "predict_cpu_s": said.cpu}
    row["peak_gb"] = max(fit.peak_gb, said.peak_gb)
    row |= {f"{stage}_s": seconds for stage, seconds in stages.items()}
    scores = fit.result.get("scores")
    if scores:
        row["scores"] = {name: scores["MLC"][name] for name in ("acc", "nmi", "ari")}
    print(json.dumps(row), flush=True)
    return row


def vectors(sizes: list[int], *more: object) -> tuple[list[Row], list[Target]]:
    """Section ``vectors``."""
    rows = []
    for n in sizes:
        with tempfile.TemporaryDirectory(prefix="scale-") as name:
            write_vectors(Path(name) / "x.npy", n)
            rows.append(case("vectors", "x.npy", GROUPS, Path(name), "--labels", "x.y.npy", *more))
    targets = [Target(f"peak memory in GB, n={r['n']}", r["peak_gb"], 4, False) for r in rows]
    for small, large in itertools.pairwise(rows):
        times = [sum(r[f"{part}_cpu_s"] for part in ("cluster", "predict")) for r in (small, large)]
        exponent = math.log(times[1] / times[0]) / math.log(large["n"] / small["n"])
        name = f"growth exponent from {small['n']} to {large['n']}"
        targets.append(Target(name, exponent, 1.1, False))
    return rows, targets


def folder(n: int, *more: object) -> tuple[list[Row], list[Target]]:
    """Section ``folder``."""
    with tempfile.TemporaryDirectory(prefix="scale-") as name:
        write_images(Path(name) / "photos", n)
        plain = ("--encoder", "none", "--image-size", 16)
        row = case("folder", "photos", 10, Path(name), *plain, *more)
    return [row], [Target(f"peak memory in GB, {n} files", row["peak_gb"], 4, False)]


def clusters(n: int, k: int, *more: object) -> tuple[list[Row], list[Target]]:
    """Section ``clusters``."""
    with tempfile.TemporaryDirectory(prefix="scale-") as name:
        write_vectors(Path(name) / "x.npy", n, k)
        row = case("clusters", "x.npy", k, Path(name), "--labels", "x.y.npy", *more)
    return [row], [Target(f"peak memory in GB, {k} clusters", row["peak_gb"], 4, False)]


def main() -> int:
    """Run the sections and report each target; exit with 1 if one is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a tenth to a hundredth of the sizes")
    parser.add_argument("--only", nargs="+", choices=["vectors", "folder", "clusters"])
    parser.add_argument("--sizes", nargs="+", type=int, help="rows of section vectors")
    parser.add_argument(
        "--budget", default="normal", help="of training, as `unbend cluster` takes it"
    )
    parser.add_argument("--json", metavar="PATH", help="write the result here")
    options = parser.parse_args()
    quick, budget = options.quick, ("--budget", options.budget)
    sizes = options.sizes or ([10**4, 10**5] if quick else [10**5, 10**6, 10**7])
    sections = {
        "vectors": lambda: vectors(sizes, *budget),
        "folder": lambda: folder(2000 if quick else 200_000, *budget),
        "clusters": lambda: clusters(*((10_000, 100) if quick else (100_000, 1000)), *budget),
    }
    print(json.dumps(describe_run()))
    result: dict[str, Any] = {}
    targets: list[Target] = []
    for name in options.only or sections:
        result[name], found = sections[name]()
        targets += found
    for target in targets:
        verdict = "ok" if target.passed else "MISSED"
        print(f"{verdict:6} {target.name}: {target.measured:.4g} (<= {target.bound:g})")
    if options.json:
        write_json(options.json, {**result, "targets": [t.as_dict() for t in targets]})
    return 0 if all(target.passed for target in targets) else 1


if __name__ == "__main__":
    sys.exit(main())
