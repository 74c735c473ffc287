"""Questions about the clusters: what is typical, near, alike, unsure; what to merge or split."""

from __future__ import annotations

import warnings
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from unbend.explore.acts import NOISE, Rows
from unbend.explore.material import Material
from unbend.labels import calibrate_eta, label_codes, merge_clusters

__all__ = ["ORDERS", "Looking"]

ORDERS = ("typical", "confident", "unsure", "outliers", "name")
_FEW = 2_000  # members that stand for a cluster in its second moments
_SPLIT_ON = 4_000  # members that are clustered to split a group; others follow
_MOMENTS = 2**26  # numbers of second moments that are held, half a gigabyte
_ALIKE = 0.9995  # cos² of near-duplicates
_STAYS = 0.9  # λ_m of the membership within a group that is split
_BLOCK = 8_192


class Looking:
    """Answers about groups of samples; a group is given by its rows."""

    def __init__(self, material: Material) -> None:
        self.material = material
        width = material.features.shape[1]
        self._moment = lru_cache(max(16, _MOMENTS // width**2))(self._compute_moment)

    # ------------------------------------------------------------------ order

    def order(self, rows: Rows, by: str) -> Rows:
        """The rows, best first: typical, confident, unsure, outliers or name."""
        m = self.material
        keys: NDArray[Any]
        if by == "typical":
            keys = -self.typicality(rows)
        elif by == "confident":
            keys = -m.probability[rows]
        elif by == "unsure":
            keys = m.probability[rows]
        elif by == "outliers":
            keys = -m.outlier_score[rows]
        elif by == "name":
            keys = np.argsort(np.argsort([str(m.facts.names[i]) for i in rows], kind="stable"))
        else:
            raise ValueError(f"`order` must be one of {', '.join(ORDERS)}, got {by[:40]!r}")
        return rows[np.argsort(keys, kind="stable")]

    def typicality(self, rows: Rows) -> NDArray[np.float64]:
        """Mean cos² of each row with the group's members: zᵀ M z with M = Σ zzᵀ / m."""
        if not len(rows):
            return np.zeros(0)
        return self._energy(rows, self.moment(rows))

    def _energy(self, rows: Rows, M: NDArray[np.float64]) -> NDArray[np.float64]:
        out = np.empty(len(rows))
        small = M.astype(np.float32)
        for start in range(0, len(rows), _BLOCK):
            Z = np.asarray(self.material.features[rows[start : start + _BLOCK]], np.float32)
            out[start : start + _BLOCK] = ((Z @ small) * Z).sum(1)
        return out

    def moment(self, rows: Rows) -> NDArray[np.float64]:
        """Σ zzᵀ / m of the rows, from at most 2,000 of them."""
        found: NDArray[np.float64] = self._moment(few(rows, _FEW).tobytes())
        return found

    def _compute_moment(self, key: bytes) -> NDArray[np.float64]:
        rows = np.frombuffer(key, dtype=np.int64)
        Z = np.asarray(self.material.features[rows], np.float64)
        return (Z.T @ Z) / max(len(rows), 1)

    # ------------------------------------------------------------------ near, alike

    def nearest(self, row: int, count: int = 24) -> tuple[Rows, NDArray[np.float64]]:
        """The samples most like one, by cos², and that number."""
        Z = self.material.features
        z = np.asarray(Z[row], np.float32)
        power = np.empty(len(Z), np.float32)
        for start in range(0, len(Z), 65_536):
            power[start : start + 65_536] = np.square(
                np.asarray(Z[start : start + 65_536], np.float32) @ z
            )
        power[row] = -1
        count = min(count, len(Z) - 1)
        best = np.argpartition(-power, max(count - 1, 0))[:count]
        best = best[np.argsort(-power[best], kind="stable")]
        return best.astype(np.int64), power[best].astype(np.float64)

    def duplicates(self, rows: Rows, most: int = 200) -> list[list[int]]:
        """Sets of near-duplicates among the rows: alike in features and, if there are, pictures."""
        rows = few(rows, 20_000)
        pairs: list[tuple[int, int]] = []
        Z = np.asarray(self.material.features[rows], np.float32)
        for start in range(0, len(rows), 1024):
            power = np.square(Z[start : start + 1024] @ Z[start:].T)
            i, j = np.nonzero(np.triu(power > _ALIKE, 1))
            pairs += zip((rows[start + i]).tolist(), (rows[start + j]).tolist(), strict=True)
            if len(pairs) > 200_000:
                break
        return _components([p for p in pairs if self._look_alike(*p)])[:most]

    def _look_alike(self, a: int, b: int) -> bool:
        tiles, index = self.material.facts.thumbnails, self.material.facts.thumbnail_index
        if tiles is None or index is None:
            return True
        place = np.searchsorted(index, [a, b])
        if (place >= len(index)).any() or (index[place] != [a, b]).any():
            return True
        first, second = (np.asarray(tiles[p], np.float32) for p in place)
        scale = max(float(first.std()), float(second.std()), 1.0)
        return float(np.abs(first - second).mean()) < 0.2 * scale

    def likely(self, row: int, groups: dict[int, Rows], count: int = 4) -> list[tuple[int, float]]:
        """The groups that a sample fits best, with its typicality there."""
        z = np.asarray(self.material.features[row], np.float32)
        found = []
        for g, rows in groups.items():
            if len(rows):
                Z = np.asarray(self.material.features[few(rows, _FEW)], np.float32)
                found.append((g, float(np.square(Z @ z).mean())))
        return sorted(found, key=lambda pair: -pair[1])[:count]

    # ------------------------------------------------------------------ merge, split

    def tree(self, groups: dict[int, Rows]) -> list[dict[str, Any]]:
        """The merges that lengthen the code least, in order, as nodes ``{id, a, b, cost}``.

        Leaves are the given groups by their numbers; inner nodes are numbered −2, −3, ...
        """
        ids = [g for g, rows in groups.items() if g != NOISE and len(rows)]
        if len(ids) < 2:
            return []
        width = self.material.features.shape[1]
        if len(ids) * width**2 > _MOMENTS:
            raise ValueError(
                f"a tree of {len(ids)} clusters in {width} dimensions takes too much memory; "
                "compare clusters two at a time"
            )
        counts = np.array([len(groups[g]) for g in ids], dtype=np.float64)
        moments = np.stack([self.moment(groups[g]) * m for g, m in zip(ids, counts, strict=True)])
        linkage = merge_clusters(
            torch.from_numpy(moments), torch.from_numpy(counts), self.material.eps_sq
        )
        number = [*ids, *(-2 - step for step in range(len(linkage)))]
        return [
            {
                "id": number[len(ids) + step],
                "a": number[int(a)],
                "b": number[int(b)],
                "cost": round(float(height), 2),
            }
            for step, (a, b, height, _) in enumerate(linkage)
        ]

    def costs(self, group: int, groups: dict[int, Rows]) -> list[dict[str, Any]]:
        """What a merge with each other group costs, as ``{id, cost}``, the cheapest first."""
        others = [g for g, rows in groups.items() if g not in (group, NOISE) and len(rows)]
        if group == NOISE or not len(groups[group]):
            return []
        found = [
            {"id": g, "cost": self.tree({group: groups[group], g: groups[g]})[0]["cost"]}
            for g in others
        ]
        return sorted(found, key=lambda entry: entry["cost"])

    def split(self, rows: Rows, parts: int) -> list[Rows]:
        """Cut a group into parts, the largest first: the finer blocks of its own membership Γ."""
        if not 2 <= parts <= min(12, len(rows) - 1):
            raise ValueError(
                f"a group of {len(rows)} can be split into 2 to {max(2, min(12, len(rows) - 1))} "
                f"parts, got {parts}"
            )
        Z = np.array(self.material.features[rows], np.float32)
        Z /= np.maximum(np.linalg.norm(Z, axis=1, keepdims=True), 1e-12)
        chosen = few(np.arange(len(rows)), _SPLIT_ON)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what it advises cannot be changed here
            codes = torch.from_numpy(Z[chosen])
            eta = calibrate_eta(codes, parts, _STAYS)
            found = label_codes(codes, codes, parts, eta=eta, join="none", absolute=True)
            labels = found.labels if len(chosen) == len(rows) else found.predict(Z)
        cut = [rows[labels == q] for q in range(parts)]
        cut = sorted((part for part in cut if len(part)), key=len, reverse=True)
        if len(cut) < 2:
            raise ValueError("these samples are too alike to be split; move them by hand")
        return cut


def few(rows: Rows, most: int) -> Rows:
    """At most ``most`` rows, always the same ones."""
    if len(rows) <= most:
        return np.asarray(rows, dtype=np.int64)
    picks = np.random.default_rng(0).choice(len(rows), most, replace=False)
    return np.asarray(rows[np.sort(picks)], dtype=np.int64)


def _components(pairs: list[tuple[int, int]]) -> list[list[int]]:
    """Connected samples, the largest set first."""
    root: dict[int, int] = {}

    def find(i: int) -> int:
        root.setdefault(i, i)
        while root[i] != i:
            root[i] = root[root[i]]
            i = root[i]
        return i

    for a, b in pairs:
        root[find(a)] = find(b)
    sets: dict[int, list[int]] = {}
    for i in sorted(root):
        sets.setdefault(find(i), []).append(i)
    return sorted(sets.values(), key=len, reverse=True)
