"""Keep the result: the corrected labels as tables, and what new data needs to follow them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from unbend.explore.acts import NOISE, Rows
from unbend.explore.curation import Curation
from unbend.explore.journal import read_curation
from unbend.explore.looking import few
from unbend.report import Facts
from unbend.runs import LabelRows, labels_files, needs_mark, read_labels

__all__ = ["CURATED", "CuratedModel", "curated_labels", "curated_rows", "write_curated"]

CURATED = ("curated.csv", "curated.parquet")
_REPRESENTATIVES = 2_000  # of one cluster in one group


def curated_labels(run: str | Path) -> tuple[LabelRows, Curation]:
    """The labels of a run and its corrections."""
    rows = read_labels(Path(run) / "labels.parquet")
    return rows, read_curation(run, rows.labels)


def curated_rows(rows: LabelRows, curation: Curation) -> LabelRows:
    """The table of corrected labels: cluster, name, and the cluster before."""
    labels = curation.labels()
    return LabelRows(
        rows.samples,
        labels,
        rows.probability,
        rows.outlier_score,
        names=[curation.name(g) for g in labels.tolist()],
        before=curation.original,
    )


def write_curated(run: str | Path, facts: Facts, curation: Curation) -> list[Path]:
    """Write ``curated.csv`` and, where pyarrow is installed, ``curated.parquet`` into the run."""
    n = len(facts.labels)
    p = np.ones(n) if facts.probability is None else facts.probability
    s = np.zeros(n) if facts.outlier_score is None else facts.outlier_score
    rows = curated_rows(LabelRows(facts.names, facts.labels, p, s), curation)
    mark = needs_mark(facts.names) or needs_mark(set(rows.names or ()))
    with labels_files(Path(run), "curated", mark=mark) as write:
        write(rows)
    return [path for name in CURATED if (path := Path(run) / name).is_file()]


@dataclass(frozen=True)
class Following:
    """Where the members of one original cluster went; one target needs no representatives."""

    targets: NDArray[np.int64]
    Z: NDArray[np.float32] | None = None


class CuratedModel:
    """Corrected clusters of new samples, from what the model of the run says of them.

    A cluster whose members all lie in one group is mapped to that group. The members of any other
    cluster were split or moved: a new sample follows the nearest of them, by cos² of the features.

    Parameters
    ----------
    curation : Curation
    features : ndarray of shape (n, d) or None
        Z of the samples of the run; needed after a split or a move.
    n_clusters, n_fitted : int
        Of the model, and of its fit. Those that updates have added are groups of their own, after
        all others.
    """

    def __init__(
        self,
        curation: Curation,
        features: NDArray[np.floating] | None,
        n_clusters: int = 0,
        n_fitted: int = 0,
    ) -> None:
        self.curation = curation
        known = [g.id for g in curation.groups()]
        # Clusters that updates have added since. Their numbers may be those of groups by now.
        first = max([*known, curation.n_original - 1]) + 1
        of_fit = max(n_fitted, curation.n_original)  # the last ones may have no row in the table
        self._added = {first + i: q for i, q in enumerate(range(of_fit, n_clusters))}
        self.groups = [*(g.id for g in curation.groups() if g.size), *self._added, NOISE]
        labels = curation.labels()
        self._follow = [
            self._prepare(np.flatnonzero(curation.original == q), labels, features)
            for q in range(curation.n_original)
        ]

    def _prepare(
        self, rows: Rows, labels: NDArray[np.int64], features: NDArray[np.floating] | None
    ) -> Following:
        targets = np.unique(labels[rows])
        if len(targets) == 0:
            return Following(np.array([NOISE]))
        if len(targets) == 1:
            return Following(targets)
        if features is None:
            raise ValueError(
                "features.npy of the run is missing, and new data needs it to follow splits and "
                "moves; cluster again"
            )
        kept = np.concatenate([few(rows[labels[rows] == g], _REPRESENTATIVES) for g in targets])
        return Following(labels[kept], np.asarray(features[kept], np.float32))

    def name(self, group: int) -> str:
        """The name of a group."""
        if group in self._added:
            return f"Cluster {self._added[group]} of an update"
        return self.curation.name(group)

    def assign(
        self, labels: NDArray[np.int64], probabilities: NDArray[np.float64], Z: NDArray[np.floating]
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """The group of each sample, and the probability of each of ``self.groups``.

        ``labels``, ``probabilities`` and ``Z`` are what the model of the run says.
        """
        place = {g: i for i, g in enumerate(self.groups)}
        out = np.full(len(labels), NOISE, dtype=np.int64)
        shares = np.zeros((len(labels), len(self.groups)))
        every = np.arange(len(labels))
        for q, follow in enumerate(self._follow):
            target = self._targets(follow, Z)
            columns = np.array([place[int(g)] for g in follow.targets])[target]
            np.add.at(shares, (every, columns), probabilities[:, q])
            mine = labels == q
            out[mine] = follow.targets[target[mine]]
        for group, q in self._added.items():
            shares[:, place[group]] += probabilities[:, q]
            out[labels == q] = group
        return out, shares

    def _targets(self, follow: Following, Z: NDArray[np.floating]) -> NDArray[np.int64]:
        """For each sample, the place in ``follow.targets`` that it goes to."""
        if follow.Z is None:
            return np.zeros(len(Z), dtype=np.int64)
        best = np.empty(len(Z), dtype=np.int64)
        for start in range(0, len(Z), 4096):
            part = np.asarray(Z[start : start + 4096], np.float32)
            best[start : start + 4096] = np.square(part @ follow.Z.T).argmax(1)
        return best
