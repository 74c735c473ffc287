"""Labels for many samples: our three paths against scikit-learn and faiss.

Four sections, all on noisy unions of random subspaces (``tests/generators/subspaces.py``):

exact
    The three paths and scikit-learn's ``SpectralClustering``. Our time covers everything from
    codes to a finished model; scikit-learn is given Γ, whose computation is not counted.
linear
    The landmark path at 10⁴, 10⁵ and 10⁶ samples (d = 128, k = 100), with scikit-learn's
    ``MiniBatchKMeans`` and faiss' k-means as yardsticks. Each contestant runs in a process of
    its own, one after the other, so that peak memory is its own; it includes the data.
many
    10,000 samples in 200 clusters by the dense path, which was the default, and by the one that
    ``"auto"`` takes; and a million samples in 1,000 clusters beside ``MiniBatchKMeans``.
auto
    How often ``n_clusters="auto"`` finds the exact number of subspaces of finished codes. For
    whole fits see ``unbend reproduce labels``.

Run ``python -m benchmarks.labels [--quick] [--only exact linear many auto] [--json PATH]``. On a
machine with other work, set ``OMP_WAIT_POLICY=PASSIVE`` first: threads that spin while they wait
for a core that is taken slow every contestant down, those with many small steps most.
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import statistics
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.cluster import MiniBatchKMeans, SpectralClustering
from sklearn.metrics import adjusted_rand_score
from tests.generators.subspaces import UnionOfSubspaces, union_of_subspaces

from benchmarks.harness import Target, describe_run, write_json
from unbend.functional import doubly_stochastic
from unbend.labels import label_codes

ETA = 0.175
EXACT = {"k": 20, "noise": 0.3, "imbalance": 2.0}
LINEAR = {"k": 100, "noise": 0.5}
MANY = {"d": 256, "noise": 0.5}
HUGE = {"k": 1000, "noise": 0.5}
PATHS = ("dense", "blocks", "landmarks")
YARDSTICKS = ("MiniBatchKMeans", "faiss")

Row = dict[str, Any]


def run_ours(data: UnionOfSubspaces, k: int, method: str) -> np.ndarray:
    """Labels of one of our paths."""
    return label_codes(data.C, data.Z, k, eta=ETA, method=method).labels


def run_minibatch(data: UnionOfSubspaces, k: int) -> np.ndarray:
    """Labels of scikit-learn's fastest k-means."""
    return MiniBatchKMeans(k, random_state=0, n_init="auto").fit(data.C).labels_


def run_faiss(data: UnionOfSubspaces, k: int) -> np.ndarray:
    """Labels of faiss' k-means, all samples assigned at the end."""
    import faiss

    faiss.omp_set_num_threads(torch.get_num_threads())
    kmeans = faiss.Kmeans(data.C.shape[1], k, seed=1, niter=20)
    kmeans.train(data.C)
    return kmeans.index.search(data.C, 1)[1][:, 0]


def run_spectral(Gamma: np.ndarray, k: int) -> np.ndarray:
    """Labels of scikit-learn's spectral clustering of a given Γ."""
    model = SpectralClustering(k, affinity="precomputed", random_state=0)
    return model.fit(Gamma).labels_


def timed(run: Any, *arguments: Any) -> tuple[np.ndarray, float]:
    """Result and seconds of one call."""
    start = time.perf_counter()
    result = run(*arguments)
    return result, time.perf_counter() - start


def exact(sizes: list[int]) -> tuple[list[Row], list[Target]]:
    """Section ``exact``."""
    rows, targets, k = [], [], int(EXACT["k"])
    run_ours(union_of_subspaces(1500, k, seed=9), k, "dense")  # warm up the libraries
    for n in sizes:
        data = union_of_subspaces(n, seed=0, **EXACT)
        found = {path: timed(run_ours, data, k, path) for path in PATHS}
        C = torch.from_numpy(data.C)
        Gamma = doubly_stochastic(C @ C.T, ETA).Gamma.numpy()
        found["SpectralClustering"] = timed(run_spectral, Gamma, k)
        reference, seconds = found["SpectralClustering"]
        for name, (labels, own) in found.items():
            row = {"n": n, "method": name, "seconds": own, "speedup": seconds / own}
            row["ari_sklearn"] = adjusted_rand_score(reference, labels)
            row["ari_dense"] = adjusted_rand_score(found["dense"][0], labels)
            row["ari_truth"] = adjusted_rand_score(data.y, labels)
            rows.append(row)
            show("exact", row)
        targets += _exact_targets(n, rows)
    return rows, targets


def _exact_targets(n: int, rows: list[Row]) -> list[Target]:
    of = {row["method"]: row for row in rows if row["n"] == n}
    agreement = min(of[path]["ari_dense"] for path in PATHS)
    targets = [Target(f"agreement of the three paths, n={n}", agreement, 0.99, True)]
    same = min(of[path]["ari_sklearn"] for path in PATHS)
    targets.append(Target(f"ARI with scikit-learn, n={n}", same, 0.98, True))
    if n == 10_000:
        targets += [
            Target(f"{path}: times faster than scikit-learn, n={n}", of[path]["speedup"], 10, True)
            for path in ("dense", "landmarks")
        ]
    return targets


def many(sizes: list[tuple[int, int]], huge: int) -> tuple[list[Row], list[Target]]:
    """Section ``many``."""
    rows, targets = [], []
    for n, k in sizes:
        data = union_of_subspaces(n, k, seed=0, **MANY)
        for method in ("dense", "auto"):
            labels, seconds = timed(run_ours, data, k, method)
            ari = adjusted_rand_score(data.y, labels)
            rows.append({"n": n, "k": k, "method": method, "seconds": seconds, "ari_truth": ari})
            show("many", rows[-1])
        targets.append(Target(f"seconds for n={n}, k={k}", rows[-1]["seconds"], 10, False))
    found = {name: in_process(name, huge, "huge") for name in ("landmarks", "MiniBatchKMeans")}
    ours, mini = found["landmarks"], found["MiniBatchKMeans"]
    if ours and mini:
        rows += [ours, mini]
        ratio = ours["seconds"] / mini["seconds"]
        targets.append(Target(f"time / MiniBatchKMeans, n={huge}, k=1000", ratio, 5, False))
        targets.append(Target(f"peak memory in GB, n={huge}, k=1000", ours["peak_gb"], 4, False))
    return rows, targets


def contestant(name: str, n: int, problem: str = "linear") -> Row:
    """One row of section ``linear`` or ``many``, in this process: the median of some repeats."""
    chosen, repeats = (HUGE, 1) if problem == "huge" else (LINEAR, 3)
    data, k = union_of_subspaces(n, seed=0, **chosen), int(chosen["k"])
    runs = {
        "landmarks": lambda: run_ours(data, k, "landmarks"),
        "MiniBatchKMeans": lambda: run_minibatch(data, k),
        "faiss": lambda: run_faiss(data, k),
    }
    results = [timed(runs[name]) for _ in range(repeats)]
    labels, seconds = results[0][0], statistics.median(own for _, own in results)
    ari = adjusted_rand_score(data.y, labels)
    return {"n": n, "method": name, "seconds": seconds, "peak_gb": peak_gb(), "ari_truth": ari}


def peak_gb() -> float:
    """Highest resident memory of this process so far.

    Linux hands ``ru_maxrss`` down from the parent process, ``VmHWM`` is the process's own.
    """
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) * 1024 / 1e9
    scale = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * scale / 1e9


def linear(sizes: list[int]) -> tuple[list[Row], list[Target]]:
    """Section ``linear``: one process per contestant and size."""
    rows = []
    for n in sizes:
        found = [in_process(name, n, "linear") for name in ("landmarks", *YARDSTICKS)]
        rows += [row for row in found if row is not None]
    return rows, _linear_targets(rows)


def in_process(name: str, n: int, problem: str) -> Row | None:
    """The row of a contestant that runs in a process of its own; None where it fails."""
    command = [sys.executable, "-m", "benchmarks.labels", "--contestant", name, str(n), problem]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        print(f"{problem} {name} n={n} failed: {done.stderr.strip().splitlines()[-1]}")
        return None
    row: Row = json.loads(done.stdout.splitlines()[-1])
    show(problem, row)
    return row


def _linear_targets(rows: list[Row]) -> list[Target]:
    of = {(row["method"], row["n"]): row for row in rows}
    n = max(row["n"] for row in rows)
    ours, mini = of["landmarks", n], of["MiniBatchKMeans", n]
    targets = [
        Target(f"landmarks: ARI with the truth, n={n}", ours["ari_truth"], 0.95, True),
        Target(f"time / MiniBatchKMeans, n={n}", ours["seconds"] / mini["seconds"], 5, False),
        Target(f"landmarks: peak memory in GB, n={n}", ours["peak_gb"], 4, False),
    ]
    if ("landmarks", n // 10) in of:
        exponent = math.log10(ours["seconds"] / of["landmarks", n // 10]["seconds"])
        targets.append(Target(f"growth exponent from {n // 10} to {n}", exponent, 1.15, False))
    return targets


def auto(ks: list[int], seeds: int) -> tuple[list[Row], list[Target]]:
    """Section ``auto``."""
    rows = []
    for k in ks:
        for imbalance in (1.0, 5.0):
            start, chosen = time.perf_counter(), []
            for seed in range(seeds):
                data = union_of_subspaces(max(1000, 40 * k), k, imbalance=imbalance, seed=seed)
                model = label_codes(data.C, data.Z, "auto", eta=ETA, seed=seed)
                chosen.append(model.n_clusters)
            seconds = (time.perf_counter() - start) / seeds
            rows.append({"k": k, "imbalance": imbalance, "chosen": chosen, "seconds": seconds})
            show("auto", rows[-1])
    hits = [chosen == row["k"] for row in rows for chosen in row["chosen"]]
    return rows, [Target("auto: exact number of clusters", float(np.mean(hits)), 0.9, True)]


def show(section: str, row: Row) -> None:
    """Print one row as it comes."""
    cells = [f"{key}={value:.3g}" if isinstance(value, float) else f"{key}={value}"
             for key, value in row.items()]  # fmt: skip
    print(section, *cells, flush=True)


def main() -> int:
    """Run the sections and report each target; exit with 1 if one is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small sizes, about a minute")
    parser.add_argument("--only", nargs="+", choices=["exact", "linear", "many", "auto"])
    parser.add_argument("--json", metavar="PATH", help="write the result here")
    parser.add_argument(
        "--contestant", nargs=3, metavar=("NAME", "N", "PROBLEM"), help=argparse.SUPPRESS
    )
    options = parser.parse_args()
    if options.contestant:
        name, n, problem = options.contestant
        print(json.dumps(contestant(name, int(n), problem)))
        return 0
    quick = options.quick
    sections = {
        "exact": lambda: exact([2000] if quick else [2000, 5000, 10_000]),
        "linear": lambda: linear([10_000, 100_000] if quick else [10**4, 10**5, 10**6]),
        "many": lambda: many([(2000, 60)] if quick else [(10_000, 200)], 10**5 if quick else 10**6),
        "auto": lambda: auto([3, 10] if quick else [3, 5, 10, 20, 50], 2 if quick else 5),
    }
    print(json.dumps(describe_run()))
    result: dict[str, Any] = {}
    targets: list[Target] = []
    for name in options.only or sections:
        result[name], found = sections[name]()
        targets += found
    for target in targets:
        sign = ">=" if target.at_least else "<="
        verdict = "ok" if target.passed else "MISSED"
        print(f"{verdict:6} {target.name}: {target.measured:.4g} ({sign} {target.bound:g})")
    if options.json:
        write_json(options.json, {**result, "targets": [t.as_dict() for t in targets]})
    return 0 if all(t.passed for t in targets) else 1


if __name__ == "__main__":
    warnings.simplefilter("default")
    sys.exit(main())
