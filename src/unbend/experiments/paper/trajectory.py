"""Stage 2 recorded epoch by epoch, shared by the figures."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from unbend.disk.provenance import ALGORITHM
from unbend.experiments import stages
from unbend.experiments.memory import Arrays, remember
from unbend.experiments.runner import Runner
from unbend.metrics import cluster_ranks, numerical_rank
from unbend.networks import Network
from unbend.samples import prepare

__all__ = ["Trajectory", "trajectory"]


class Trajectory(NamedTuple):
    """Rates of every step, ranks of every epoch, and the representation before and after.

    ``ranks`` is (epochs + 1, 1 + k): of all features, then of each true class. ``rates`` is
    (steps, 2): R and R_c.
    """

    labels: NDArray[np.int64]
    Z_before: NDArray[np.floating]
    Z: NDArray[np.floating]
    C: NDArray[np.floating]
    rates: NDArray[np.float64]
    ranks: NDArray[np.int64]


def trajectory(runner: Runner, seed: int) -> Trajectory:
    """Stage 2 of MLC for one seed; true classes are used only to measure ranks."""
    problem = runner.problem

    def work() -> Arrays:
        start = runner.stage1(seed)
        samples, _ = prepare(problem.X)
        ranks: list[list[int]] = []

        def look(epoch: int, network: Network) -> None:
            Z = network.encode(samples).Z.cpu()
            ranks.append([numerical_rank(Z), *cluster_ranks(Z, problem.y).values()])

        found = stages.stage2(problem, start, seed, observe=look, progress=runner.progress)
        return {
            "labels": found.labels,
            "Z_before": stages.features(problem, start.network),
            "Z": found.Z,
            "C": found.C,
            "rates": np.array([[row["R"], row["R_c"]] for row in found.history]),
            "ranks": np.array(ranks),
        }

    key = ["trajectory", problem.config.to_dict(), problem.fingerprint, seed]
    rooms = (*ALGORITHM, "metrics", "experiments/paper/trajectory.py")
    return Trajectory(**remember("trajectory", key, work, cached=runner.cached, rooms=rooms))
