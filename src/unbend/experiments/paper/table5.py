"""Table 5: time per stage."""

from __future__ import annotations

import platform

import torch

from unbend.experiments.paper.paper_table import paper_table
from unbend.experiments.paper.published import DEEP, MINUTES
from unbend.experiments.paper.table3 import HEADS, PEERS
from unbend.experiments.problem import Problem
from unbend.experiments.runner import Runner
from unbend.metrics import clustering_accuracy
from unbend.metrics.tables import Table, mean_sd
from unbend.progress import Progress

__all__ = ["run"]


@paper_table("table5", seeds=(3, 1), full="cifar100")
def run(problem: Problem, each: range, progress: Progress) -> Table:
    """Seconds of stage 1, of stage 2 with labels, and in total; the cache is not used."""
    times: dict[str, list[tuple[float, float, float]]] = {}
    runner = Runner(problem, progress, cached=False)
    for seed in each:
        first = runner.stage1(seed)
        runs = {"MLC": runner.mlc(seed)}
        runs |= {name: runner.peer(peer, seed) for name, peer in PEERS.items()}
        Z = runner.features(seed)
        runs |= {name: runner.classic(method, Z, seed) for name, method in HEADS.items()}
        for name, found in runs.items():
            acc = clustering_accuracy(problem.y, found.labels)
            times.setdefault(name, []).append((first.seconds, found.seconds, acc))
    rows = [_row(name, found) for name, found in times.items()]
    published = {p.method: p.acc for p in DEEP["cifar100"]}
    rows += [
        [
            f"{name} (published)",
            *(f"{60 * m:.0f}" if m is not None else "" for m in minutes),
            f"{published[name]:.3f}",
        ]
        for name, minutes in MINUTES.items()
    ]
    threads = torch.get_num_threads()
    machine = _machine()
    return Table(
        f"Table 5. {problem.describe()}, {len(each)} seeds, mean ± sd, seconds on {machine}, "
        f"{threads} thread{'s' if threads > 1 else ''}",
        ["method", "stage I", "stage II", "stage III", "total", "ACC"],
        rows,
        [
            "SCAN to TURTLE train heads on the features of stage I.",
            "Stage II includes the labels. Published: CIFAR-100 on two RTX 3090, in seconds.",
        ],
    )


def _row(name: str, found: list[tuple[float, float, float]]) -> list[str]:
    first, second, acc = (list(column) for column in zip(*found, strict=True))
    total = [a + b for a, b in zip(first, second, strict=True)]
    return [name, mean_sd(first, 1), mean_sd(second, 1), "", mean_sd(total, 1), mean_sd(acc)]


def _machine() -> str:
    if torch.cuda.is_available():
        return str(torch.cuda.get_device_name())
    return f"a CPU ({platform.machine()})"
