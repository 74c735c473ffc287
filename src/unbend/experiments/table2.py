"""Table 2: subspace clustering on the features before and after MLC.

The paper searches the parameters of EnSC and SSC-OMP with the true labels and reports the best
run. Here they keep their defaults on both features, which no label has seen.
"""

from __future__ import annotations

from pathlib import Path

from unbend.experiments.lab import Found, Lab, listening
from unbend.experiments.problem import open_problem, seeds_of
from unbend.experiments.published import SUBSPACE
from unbend.experiments.tables import SCORE_COLUMNS, Table, score_cells

__all__ = ["run"]

_METHODS = {"EnSC": "ensc", "SSC-OMP": "ssc-omp"}


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
    """EnSC and SSC-OMP on Z_TCR (after stage 1) and on Z_MLC (after stage 2); MLC on X."""
    problem = open_problem(data, encoder, checkpoint, scale=scale)
    each = seeds_of(seeds, 5, 3, scale)
    with listening(verbose) as progress:
        lab = Lab(problem, progress)
        found = _run_all(lab, each)
    rows = [
        [name, given, *score_cells([lab.score(f) for f in runs]), _published(name, given)]
        for (name, given), runs in found.items()
    ]
    rows.append(["chance, true sizes", "", *score_cells([lab.chance()]), ""])
    table = Table(
        f"Table 2. {problem.describe()}, {len(each)} seeds, mean ± sd",
        ["method", "input", *SCORE_COLUMNS, "published ACC / NMI"],
        rows,
        ["Published: CIFAR-10, parameters of EnSC and SSC-OMP chosen by the true labels."],
    )
    return table.saved(out, "table2")


def _run_all(lab: Lab, each: range) -> dict[tuple[str, str], list[Found]]:
    mlc = {seed: lab.mlc(seed) for seed in each}
    found: dict[tuple[str, str], list[Found]] = {}
    for name, method in _METHODS.items():
        found[name, "Z_TCR"] = [lab.classic(method, lab.features(s), s) for s in each]
        found[name, "Z_MLC"] = [lab.classic(method, mlc[s].Z, s) for s in each]
    found["MLC", "X"] = list(mlc.values())
    return found


def _published(name: str, given: str) -> str:
    acc, nmi = SUBSPACE[name, given]
    return f"{acc:.3f} / {nmi:.3f}"
