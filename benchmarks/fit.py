"""Whole fits with default settings, beside the methods that people would use instead.

Four sections:

start
    Processor time of ``from unbend import MLC`` beside that of torch and ``sklearn.base``, in
    turns, each in a fresh interpreter.
threads
    A fit of 1,440 vectors, alone and beside a busy process per core: with the number of threads
    that unbend chooses, and with all of them.
vectors
    Mixtures in 64, 384 and 1280 columns, n = 1,000 to 100,000.
images
    digits, 10,000 and all 70,000 images of MNIST, and 10,000 embedded photographs (after
    ``make data``).

Every fit is a process of its own, one after the other. Seconds are those of ``fit``; ``cpu`` is the
processor time of the whole process with its imports, which a busy machine does not change. The
picture has a point per method: accuracy over processor time.

Run ``python -m benchmarks.fit [--quick] [--only start threads vectors images] [--methods mlc ...]
[--json PATH] [--picture PATH]``.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import adjusted_rand_score

from benchmarks.harness import Target, describe_run, write_json
from unbend.experiments.suite.problems import load_problem
from unbend.metrics import clustering_accuracy
from unbend.sources.named import load_named

METHODS = ("mlc", "umap-kmeans", "umap-hdbscan", "evoc", "spectral")
# Rows beyond which a method takes a quarter of an hour or more: its graph, or its tree.
UP_TO = {"spectral": 20_000, "umap-hdbscan": 20_000}

Row = dict[str, Any]
Labelled = tuple[np.ndarray, np.ndarray]


def mixture(n: int, p: int, k: int = 10, seed: int = 0) -> Labelled:
    """k groups in p columns, each spread over eight directions of its own, with noise."""
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.arange(n) % k)
    centers = rng.normal(size=(k, p)) * (2.5 / math.sqrt(p))
    spread = rng.normal(size=(k, 8, p)) / math.sqrt(p)
    X = centers[y] + np.einsum("nd,ndp->np", rng.normal(size=(n, 8)), spread[y], optimize=True)
    return (X + rng.normal(size=(n, p)) * (0.5 / math.sqrt(p))).astype(np.float32), y


def run_cell(name: str, X: np.ndarray, y: np.ndarray, method: str, **params: Any) -> Row:
    """One fit in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        np.save(f"{folder}/X.npy", X)
        request = {"X": f"{folder}/X.npy", "method": method, "n_clusters": len(np.unique(y)),
                   "seed": 0, "params": params}  # fmt: skip
        Path(f"{folder}/request.json").write_text(json.dumps(request))
        module = "unbend.experiments.benchmark.worker"
        words = [sys.executable, "-m", module, f"{folder}/request.json", f"{folder}/labels.npy"]
        done, cpu = run_counted(words)
        row: Row = {"data": name, "n": len(X), "p": int(np.prod(X.shape[1:])), "method": method}
        if done.returncode:
            return {**row, "failed": done.stderr.strip().splitlines()[-1]}
        found = json.loads(done.stdout.splitlines()[-1])
        labels = np.load(f"{folder}/labels.npy")
    return {
        **row,
        "seconds": found["seconds"],
        "cpu": cpu,
        "peak_gb": found["peak_bytes"] / 1e9,
        "acc": clustering_accuracy(y, labels),
        "ari": adjusted_rand_score(y, labels),
    }


def run_counted(words: list[str], **options: Any) -> tuple[subprocess.CompletedProcess[str], float]:
    """A finished process and its seconds of processor time, user and system."""
    before = os.times()
    done = subprocess.run(words, capture_output=True, text=True, **options)
    after = os.times()
    cpu = after.children_user + after.children_system
    return done, cpu - before.children_user - before.children_system


def start(quick: bool, wanted: list[str]) -> tuple[list[Row], list[Target]]:
    """Section ``start``."""
    codes = {"floor": "import torch, sklearn.base", "MLC": "from unbend import MLC"}
    found: dict[str, list[float]] = {name: [] for name in codes}
    for _ in range(3 if quick else 7):
        for name, code in codes.items():
            found[name].append(run_counted([sys.executable, "-c", code])[1])
    rows = [{"imports": name, "cpu": statistics.median(found[name])} for name in codes]
    ratio = rows[1]["cpu"] / rows[0]["cpu"]
    show("start", {**rows[1], "beside torch and sklearn.base": ratio})
    return rows, [Target("start-up / (torch + sklearn.base)", ratio, 1.3, False)]


FIT = """
import time, numpy as np, torch, unbend.threads
from unbend import MLC
torch.set_num_threads({threads})
if {all_threads}:
    unbend.threads._WORTH_SHARING = 0
X = np.load({path!r})
start = time.perf_counter()
MLC(20, random_state=0).fit(X)
print(time.perf_counter() - start)
"""


def threads(quick: bool, wanted: list[str]) -> tuple[list[Row], list[Target]]:
    """Section ``threads``: a fit that is too small to share, on an idle and on a busy machine."""
    cores, rows = max(2, os.cpu_count() or 2), []
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/X.npy"
        np.save(path, mixture(360 if quick else 1440, 64, 20)[0])
        for busy in (False, True):
            idle = [subprocess.Popen([sys.executable, "-c", "while True: pass"])
                    for _ in range(cores if busy else 0)]  # fmt: skip
            try:
                for how in ("chosen", "all"):
                    code = FIT.format(threads=cores, all_threads=how == "all", path=path)
                    done, cpu = run_counted([sys.executable, "-c", code], check=True)
                    rows.append({"beside": "busy" if busy else "idle", "threads": how,
                                 "seconds": float(done.stdout), "cpu": cpu})  # fmt: skip
                    show("threads", rows[-1])
            finally:
                for process in idle:
                    process.kill()
                    process.wait()
    ratio = rows[2]["seconds"] / rows[3]["seconds"]
    return rows, [Target("beside busy processes: chosen / all threads", ratio, 1.0, False)]


def compare(
    problems: dict[str, Callable[[], Labelled]], section: str, wanted: list[str]
) -> list[Row]:
    """Every wanted method on every problem."""
    rows = []
    for name, load in problems.items():
        X, y = load()
        for method in METHODS:
            if method not in wanted or len(X) > UP_TO.get(method, len(X)):
                continue
            rows.append(run_cell(name, X, y, method))
            show(section, rows[-1])
    return rows


def vectors(quick: bool, wanted: list[str]) -> tuple[list[Row], list[Target]]:
    """Section ``vectors``."""
    sizes = (1000, 3000) if quick else (1000, 10_000, 100_000)
    widths = (64,) if quick else (64, 384, 1280)
    problems = {
        f"{n} x {p}": (lambda n=n, p=p: mixture(n, p))
        for p in widths
        for n in sizes
        if n * p <= 10**8
    }
    rows = compare(problems, "vectors", wanted)
    of = {(r["data"], r["method"]): r for r in rows if "cpu" in r}
    targets = []
    for name, bound in (("10000 x 1280", 1.0), ("100000 x 384", 1.5)):
        ours, theirs = of.get((name, "mlc")), of.get((name, "umap-kmeans"))
        if ours and theirs:
            ratio = ours["cpu"] / theirs["cpu"]
            targets.append(Target(f"{name}: cpu / UMAP + k-means", ratio, bound, False))
            gain = ours["ari"] - theirs["ari"]
            targets.append(Target(f"{name}: ARI - UMAP + k-means", gain, 0.0, True))
    few, many = f"{sizes[-2]} x {widths[0]}", f"{sizes[-1]} x {widths[0]}"
    if (few, "mlc") in of and (many, "mlc") in of:
        growth = of[many, "mlc"]["seconds"] / of[few, "mlc"]["seconds"]
        exponent = math.log(growth) / math.log(sizes[-1] / sizes[-2])
        targets.append(Target(f"growth exponent from {few} to {many}", exponent, 1.2, False))
    return rows, targets


def whole_mnist() -> Labelled:
    """Training and test images."""
    parts = [load_named("mnist", split=split) for split in ("train", "test")]
    return np.concatenate([p.X for p in parts]), np.concatenate([p.y for p in parts])


def images(quick: bool, wanted: list[str]) -> tuple[list[Row], list[Target]]:
    """Section ``images``."""
    problems: dict[str, Callable[[], Labelled]] = {
        "digits": lambda: load_problem("development", "digits-images")
    }
    if not quick:
        problems["mnist"] = lambda: load_problem("test", "mnist-images")
        problems["mnist-70000"] = whole_mnist
        problems["cifar10-lite2"] = lambda: load_problem("test", "cifar10-lite2")
    rows = compare(problems, "images", wanted)
    of = {(r["data"], r["method"]): r for r in rows if "cpu" in r}
    targets = []
    if ("digits", "mlc") in of:
        digits = of["digits", "mlc"]
        targets.append(Target("digits: seconds of fit", digits["seconds"], 20, False))
        targets.append(Target("digits: ACC", digits["acc"], 0.965, True))
    if ("mnist", "mlc") in of and ("mnist", "umap-kmeans") in of:
        ours, theirs = of["mnist", "mlc"], of["mnist", "umap-kmeans"]
        targets.append(Target("10,000 of MNIST: seconds of fit", ours["seconds"], 300, False))
        gain = ours["acc"] - theirs["acc"]
        targets.append(Target("10,000 of MNIST: ACC - UMAP + k-means", gain, 0.0, True))
    if ("mnist-70000", "mlc") in of:
        seconds = of["mnist-70000", "mlc"]["seconds"]
        targets.append(Target("70,000 of MNIST: seconds of fit", seconds, 720, False))
    if ("cifar10-lite2", "mlc") in of and ("cifar10-lite2", "umap-kmeans") in of:
        ours, theirs = of["cifar10-lite2", "mlc"], of["cifar10-lite2", "umap-kmeans"]
        ratio, gain = ours["cpu"] / theirs["cpu"], ours["ari"] - theirs["ari"]
        name = "10,000 photographs x 1280"
        targets.append(Target(f"{name}: cpu / UMAP + k-means", ratio, 1.0, False))
        targets.append(Target(f"{name}: ARI - UMAP + k-means", gain, 0.0, True))
    return rows, targets


def draw(rows: list[Row], path: str) -> None:
    """Accuracy over processor time, a panel per problem and a point per method."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    rows = [row for row in rows if "cpu" in row]
    names = list(dict.fromkeys(row["data"] for row in rows))
    columns = min(3, len(names))
    lines = -(-len(names) // columns)
    figure, axes = plt.subplots(
        lines, columns, figsize=(4 * columns, 3.2 * lines), squeeze=False, layout="constrained"
    )
    for ax, name in zip(axes.flat, names, strict=False):
        for method in METHODS:
            for row in rows:
                if (row["data"], row["method"]) == (name, method):
                    ax.scatter(row["cpu"], row["acc"], color=f"C{METHODS.index(method)}")
                    ax.annotate(method, (row["cpu"], row["acc"]), textcoords="offset points",
                                xytext=(4, 4), fontsize=8)  # fmt: skip
        ax.set(xscale="log", title=name, xlabel="processor seconds", ylabel="ACC", ylim=(0, 1.05))
    for ax in axes.flat[len(names) :]:
        ax.set_axis_off()
    figure.savefig(path)


def show(section: str, row: Row) -> None:
    """Print one row as it comes."""
    cells = [f"{key}={value:.3g}" if isinstance(value, float) else f"{key}={value}"
             for key, value in row.items()]  # fmt: skip
    print(section, *cells, flush=True)


def main() -> int:
    """Run the sections and report each target; exit with 1 if one is missed."""
    sections = {"start": start, "threads": threads, "vectors": vectors, "images": images}
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small sizes, a few minutes")
    parser.add_argument("--only", nargs="+", choices=list(sections))
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--json", metavar="PATH", help="write the result here")
    parser.add_argument("--picture", metavar="PATH", help="draw accuracy over time here")
    options = parser.parse_args()
    print(json.dumps(describe_run()))
    result: dict[str, Any] = {}
    targets: list[Target] = []
    for name in options.only or sections:
        result[name], found = sections[name](options.quick, options.methods)
        targets += found
    for target in targets:
        sign = ">=" if target.at_least else "<="
        verdict = "ok" if target.passed else "MISSED"
        print(f"{verdict:6} {target.name}: {target.measured:.4g} ({sign} {target.bound:g})")
    if options.picture:
        draw(result.get("vectors", []) + result.get("images", []), options.picture)
    if options.json:
        write_json(options.json, {**result, "targets": [t.as_dict() for t in targets]})
    return 0 if all(target.passed for target in targets) else 1


if __name__ == "__main__":
    sys.exit(main())
