"""Tables 3 and 4: MLC against deep clustering, all from the same stage-1 features."""

from __future__ import annotations

from unbend.experiments.paper.paper_table import paper_table
from unbend.experiments.paper.published import DEEP, Published
from unbend.experiments.problem import Problem
from unbend.experiments.runner import Runner, RunResult
from unbend.metrics.tables import SCORE_COLUMNS, Table, mean_sd, score_cells
from unbend.progress import Progress

__all__ = ["compare_deep", "run"]

PEERS = {"NMCE": "NMCE", "CPP": "CPP", "PRO-DSC": "PRODSC"}
# Trained on the features after stage 1, which stay as they are.
HEADS = {
    "SCAN": "scan",
    "GCC": "gcc",
    "NNM": "nnm",
    "IMC-SwAV": "imc-swav",
    "SPICE": "spice",
    "TEMI": "temi",
    "TURTLE": "turtle",
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
    for name, method in HEADS.items():
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
        f"{title}. {problem.describe()}, {len(each)} seeds, mean ± sd",
        ["method", "source", *SCORE_COLUMNS, "seconds"],
        rows,
        [
            "MLC and the peers start from the same stage 1, whose time is not counted here.",
            "Methods with heads (SCAN to TURTLE) leave the backbone as stage 1 left it.",
            "Published rows were not run here and can be compared only on the data they name.",
        ],
    )


def _seconds(runs: list[RunResult]) -> str:
    return mean_sd([run.seconds for run in runs], 1)
