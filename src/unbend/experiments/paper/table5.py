"""Table 5: time per stage."""

from __future__ import annotations

import platform

import torch

from unbend.experiments.paper.paper_table import over_seeds, paper_table
from unbend.experiments.paper.published import DEEP, MINUTES
from unbend.experiments.paper.table3 import FROM_IMAGES, HEADS, ON_VECTORS, PEERS
from unbend.experiments.problem import Problem
from unbend.experiments.runner import Runner
from unbend.metrics import clustering_accuracy
from unbend.metrics.tables import Table, mean_sd
from unbend.progress import Progress

__all__ = ["run"]


@paper_table("table5", seeds=(3, 1), full="cifar100")
def run(problem: Problem, each: range, progress: Progress) -> Table:
    """Seconds of stage 1, of stage 2 with labels, and in total; the cache is not used."""
    times: dict[str, list[tuple[float, float, float, float]]] = {}
    runner = Runner(problem, progress, cached=False)
    images = problem.X.ndim > 2
    for seed in each:
        first = runner.stage1(seed)
        runs = {"MLC": runner.mlc(seed)}
        runs |= {name: runner.peer(peer, seed) for name, peer in PEERS.items()}
        Z, heads = runner.features(seed), HEADS if images else ON_VECTORS
        runs |= {name: runner.classic(method, Z, seed) for name, method in heads.items()}
        for name, found in runs.items():
            acc = clustering_accuracy(problem.y, found.labels)
            times.setdefault(name, []).append((first.seconds, found.seconds, 0.0, acc))
        for name, (method, start) in FROM_IMAGES.items() if images else ():
            one = runner.from_images(method, start, seed)
            acc = clustering_accuracy(problem.y, one.labels)
            second = one.seconds - one.stage3
            times.setdefault(name, []).append((one.stage1, second, one.stage3, acc))
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
        f"Table 5. {problem.describe()}, {over_seeds(each)}, seconds on {machine}, "
        f"{threads} thread{'s' if threads > 1 else ''}",
        ["method", "stage I", "stage II", "stage III", "total", "ACC"],
        rows,
        [
            "Peers with a stage I in their name run on images, the others start from TCR. "
            "Stage III is SCAN's self-labelling and SPICE's last step.",
            "Stage II includes the labels. Published: CIFAR-100 on two RTX 3090, in seconds.",
        ],
    )


def _row(name: str, found: list[tuple[float, float, float, float]]) -> list[str]:
    first, second, third, acc = (list(column) for column in zip(*found, strict=True))
    total = [sum(parts) for parts in zip(first, second, third, strict=True)]
    last = mean_sd(third, 1) if any(third) else ""
    return [name, mean_sd(first, 1), mean_sd(second, 1), last, mean_sd(total, 1), mean_sd(acc)]


def _machine() -> str:
    if torch.cuda.is_available():
        return str(torch.cuda.get_device_name())
    return f"a CPU ({platform.machine()})"
