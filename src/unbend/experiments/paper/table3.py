"""Tables 3 and 4: MLC against deep clustering, all from the same stage-1 features."""

from __future__ import annotations

from unbend.experiments.paper.paper_table import over_seeds, paper_table
from unbend.experiments.paper.published import DEEP, Published
from unbend.experiments.problem import Problem
from unbend.experiments.runner import Runner, RunResult
from unbend.metrics.tables import SCORE_COLUMNS, Table, mean_sd, score_cells
from unbend.progress import Progress

__all__ = ["compare_deep", "run"]

PEERS = {"NMCE": "NMCE", "CPP": "CPP", "PRO-DSC": "PRODSC"}
# On images as published, from a backbone that the method named second trained.
FROM_IMAGES = {
    "SCAN-SimCLR": ("scan", "simclr"),
    "GCC-SimCLR": ("gcc", "simclr"),
    "NNM-SimCLR": ("nnm", "simclr"),
    "IMC-SwAV": ("imc-swav", "swav"),
    "SCAN-MoCoV2": ("scan", "moco"),
    "SPICE-MoCoV2": ("spice", "moco"),
}
# Trained on the features after stage 1, which stay as they are.
HEADS = {"TEMI": "temi", "TURTLE": "turtle"}
# The same for vectors, which have no augmentations.
ON_VECTORS = {
    "SCAN": "scan",
    "GCC": "gcc",
    "NNM": "nnm",
    "IMC-SwAV": "imc-swav",
    "SPICE": "spice",
    **HEADS,
}
CLASSICS = {"k-means": "kmeans", "spectral clustering": "spectral"}


@paper_table("table3", seeds=(5, 3))
def run(problem: Problem, each: range, progress: Progress) -> Table:
    """MLC and the peers; at the scale ``full`` on CIFAR-10, or CIFAR-20 with ``data``."""
    published = DEEP["cifar20" if "cifar20" in problem.name else "cifar10"]
    return compare_deep("Table 3", problem, each, published, progress)


def compare_deep(
    title: str, problem: Problem, each: range, published: list[Published], progress: Progress
) -> Table:
    """Rows for MLC, each peer, each classical method, chance, and published results."""
    runner = Runner(problem, progress)
    found: dict[str, list[RunResult]] = {"MLC": [runner.mlc(seed) for seed in each]}
    for name, peer in PEERS.items():
        found[name] = [runner.peer(peer, seed) for seed in each]
    images = problem.X.ndim > 2
    if images:
        moco = Runner(problem.with_config({"pretrain.method": "moco"}), progress)
        found["MLC-MoCoV2"] = [moco.mlc(seed) for seed in each]
    for name, (method, start) in FROM_IMAGES.items() if images else ():
        found[name] = [runner.from_images(method, start, seed).result for seed in each]
    for name, method in (HEADS if images else ON_VECTORS).items():
        found[f"{name} on Z_TCR"] = [runner.classic(method, runner.features(s), s) for s in each]
    for name, method in CLASSICS.items():
        found[f"{name} on X"] = [runner.classic(method, problem.X, seed) for seed in each]
        found[f"{name} on Z_TCR"] = [runner.classic(method, runner.features(s), s) for s in each]
    rows = [
        [name, "run", *score_cells([runner.score(f) for f in runs]), _seconds(runs)]
        for name, runs in found.items()
    ]
    rows.append(["chance, true sizes", "run", *score_cells([runner.chance()]), ""])
    rows += [
        [p.method, f"published, {p.data}", f"{p.acc:.3f}", f"{p.nmi:.3f}", "", "", ""]
        for p in published
    ]
    return Table(
        f"{title}. {problem.describe()}, {over_seeds(each)}",
        ["method", "source", *SCORE_COLUMNS, "seconds"],
        rows,
        [
            "MLC and the peers without a stage 1 in their name start from the same TCR. Peers with "
            "one trained the same network on the same views by it, with as many steps, then run "
            "on images. Methods on Z_TCR train heads alone. The time of stage 1 is not counted.",
            "Published rows were not run here and can be compared only on the data they name.",
        ],
    )


def _seconds(runs: list[RunResult]) -> str:
    return mean_sd([run.seconds for run in runs], 1)
