"""Tables 3 and 4: MLC against deep clustering, each run from the same stage-1 features."""

from __future__ import annotations

from pathlib import Path

from unbend.experiments.lab import Found, Lab, listening
from unbend.experiments.problem import Problem, open_problem, seeds_of
from unbend.experiments.published import DEEP, Published
from unbend.experiments.tables import SCORE_COLUMNS, Table, file_name, mean_sd, score_cells
from unbend.progress import Progress

__all__ = ["compare_deep", "run"]

PEERS = {"NMCE": "NMCE", "CPP": "CPP", "PRO-DSC": "PRODSC"}
CLASSICS = {"k-means": "kmeans", "spectral clustering": "spectral"}


def run(
    *,
    data: str | None = None,
    encoder: str | None = None,
    checkpoint: str | None = None,
    scale: str = "small",
    seeds: int | None = None,
    out: Path | None = None,
    verbose: bool = True,
) -> Table:
    """MLC and the peers; at the scale ``full`` on CIFAR-10, or CIFAR-20 with ``data``."""
    problem = open_problem(data, encoder, checkpoint, scale=scale)
    each = seeds_of(seeds, 5, 3, scale)
    published = DEEP["cifar20" if "cifar20" in problem.name else "cifar10"]
    with listening(verbose) as progress:
        table = compare_deep("Table 3", problem, each, published, progress)
    return table.saved(out, file_name("table3", data, encoder, checkpoint))


def compare_deep(
    title: str, problem: Problem, each: range, published: list[Published], progress: Progress
) -> Table:
    """A row for MLC, each peer, each classic on the samples, chance, and what was published."""
    lab = Lab(problem, progress)
    found: dict[str, list[Found]] = {"MLC": [lab.mlc(seed) for seed in each]}
    for name, peer in PEERS.items():
        found[name] = [lab.peer(peer, seed) for seed in each]
    for name, method in CLASSICS.items():
        found[f"{name} on X"] = [lab.classic(method, problem.X, seed) for seed in each]
        found[f"{name} on Z_TCR"] = [lab.classic(method, lab.features(s), s) for s in each]
    rows = [
        [name, "run", *score_cells([lab.score(f) for f in runs]), _seconds(runs)]
        for name, runs in found.items()
    ]
    rows.append(["chance, true sizes", "run", *score_cells([lab.chance()]), ""])
    rows += [
        [p.method, f"published, {p.data}", f"{p.acc:.3f}", f"{p.nmi:.3f}", "", "", ""]
        for p in published
    ]
    return Table(
        f"{title}. {problem.describe()}, {len(each)} seeds, mean ± sd",
        ["method", "source", *SCORE_COLUMNS, "seconds"],
        rows,
        [
            "MLC and the deep peers start from the same stage 1, whose time is not counted here.",
            "Published rows were not run here and can be compared only on the data they name.",
        ],
    )


def _seconds(runs: list[Found]) -> str:
    return mean_sd([run.seconds for run in runs], 1)
