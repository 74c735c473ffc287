"""A session: the run, its journal and the questions to it, behind one lock."""

from __future__ import annotations

import secrets
import threading
from collections import OrderedDict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unbend.explore.acts import NOISE, Act, Rows, Split, read_act
from unbend.explore.journal import JOURNAL, Journal
from unbend.explore.keep import write_curated
from unbend.explore.looking import Looking
from unbend.explore.material import Material
from unbend.explore.naming import Naming
from unbend.report.palette import colours

__all__ = ["Session"]

_PREVIEWS = 16
_MOST_FOUND = 5_000
_MOST_REVIEWED = 500


class Session:
    """Everything that the page can ask and do; safe to call from several threads."""

    def __init__(self, material: Material, *, read_only: bool = False) -> None:
        self.material, self.read_only = material, read_only
        self.lock = threading.RLock()
        facts = material.facts
        self.journal = Journal(
            material.path / JOURNAL, facts.labels, facts.n_clusters, read_only=read_only
        )
        self.looking, self.naming = Looking(material), Naming(material)
        self._previews: OrderedDict[str, Split] = OrderedDict()
        self._grouped: tuple[int, dict[int, Rows]] | None = None

    @property
    def revision(self) -> int:
        """Acts so far."""
        return self.journal.curation.count

    # ------------------------------------------------------------------ look

    def about(self) -> dict[str, Any]:
        """What does not change while the server runs."""
        m = self.material
        return {
            "title": str(m.facts.about.get("title") or m.path.name),
            "run": m.path.name,
            "n": m.n,
            "kind": "pictures" if m.pictures else "texts" if m.texts is not None else "rows",
            "has_map": m.facts.features is not None,
            "read_only": self.read_only,
            "names": self.naming.possible,
            "columns": [c.describe() for c in m.columns],
            "outlier_threshold": m.facts.outlier_threshold,
        }

    def state(self) -> dict[str, Any]:
        """The groups and what can be undone."""
        with self.lock:
            curation, p = self.journal.curation, self.material.probability
            groups = self.groups()
            found = [
                {
                    "id": g.id,
                    "name": g.name,
                    "named": g.named,
                    "size": g.size,
                    "confidence": float(p[groups[g.id]].mean()) if g.size else None,
                    "colour": colour(g.id),
                    "reviewed": int(curation.reviewed[groups[g.id]].sum()),
                }
                for g in curation.groups()
            ]
            return {
                "revision": self.revision,
                "groups": found,
                "noise": len(groups[NOISE]),
                "reviewed": int(curation.reviewed.sum()),
                "undo": _say(curation.undoable),
                "redo": _say(curation.redoable),
            }

    def groups(self) -> dict[int, Rows]:
        """The members of every group, noise included."""
        with self.lock:
            if self._grouped is None or self._grouped[0] != self.revision:
                curation = self.journal.curation
                labels = curation.labels()
                order = np.argsort(labels, kind="stable")
                found, starts = np.unique(labels[order], return_index=True)
                parts = dict(zip(found.tolist(), np.split(order, starts[1:]), strict=True))
                ids = [*(g.id for g in curation.groups()), NOISE]
                empty = np.zeros(0, dtype=np.int64)
                self._grouped = (self.revision, {g: parts.get(g, empty) for g in ids})
            return self._grouped[1]

    def labels(self) -> NDArray[np.int32]:
        """The group of each sample."""
        with self.lock:
            return self.journal.curation.labels().astype("<i4")

    def members(self, group: int, order: str) -> NDArray[np.int32]:
        """The samples of a group in some order."""
        return self.looking.order(self._rows_of(group), order).astype("<i4")

    def describe(self, rows: list[int]) -> list[dict[str, Any]]:
        """Name, group and scores of some samples."""
        m = self.material
        with self.lock:
            labels = self.journal.curation.labels()[rows].tolist()
            reviewed = self.journal.curation.reviewed[rows].tolist()
        return [
            {
                "row": row,
                "name": str(m.facts.names[row])[:400],
                "group": group,
                "confidence": round(float(m.probability[row]), 4),
                "outlier": round(float(m.outlier_score[row]), 4),
                "reviewed": seen,
                "text": None if m.texts is None else m.texts[row][:600],
                "pictured": bool(m.pictures.known[row]),
            }
            for row, group, seen in zip(rows, labels, reviewed, strict=True)
        ]

    def nearest(self, row: int) -> dict[str, Any]:
        """Samples like one, and the groups that it fits best."""
        rows, power = self.looking.nearest(row)
        groups = {g: r for g, r in self.groups().items() if g != NOISE}
        fits = self.looking.likely(row, groups)
        return {
            "rows": rows.tolist(),
            "likeness": [round(float(p), 4) for p in power],
            "groups": [{"id": g, "fit": round(fit, 4)} for g, fit in fits],
        }

    def duplicates(self, group: int) -> list[list[int]]:
        """Sets of near-duplicates in a group."""
        return self.looking.duplicates(self._rows_of(group))

    def tree(self) -> list[dict[str, Any]]:
        """The merge tree of the groups as they are now."""
        return self.looking.tree(self.groups())

    def costs(self, group: int) -> list[dict[str, Any]]:
        """What merging a group with each other one costs."""
        self._rows_of(group)
        return self.looking.costs(group, self.groups())

    def search(self, text: str) -> dict[str, Any]:
        """Samples whose name or text contains some text, and groups whose name does."""
        wanted = text.casefold().strip()
        if not wanted:
            return {"rows": [], "groups": [], "total": 0}
        rows = [i for i, name in enumerate(self.material.searchable) if wanted in name]
        with self.lock:
            groups = [g.id for g in self.journal.curation.groups() if wanted in g.name.casefold()]
        return {"rows": rows[:_MOST_FOUND], "groups": groups, "total": len(rows)}

    def queue(self) -> list[int]:
        """Samples that nobody has looked at, least certain first."""
        with self.lock:
            seen = self.journal.curation.reviewed | (self.journal.curation.labels() == NOISE)
        open_rows = np.flatnonzero(~seen)
        p = self.material.probability[open_rows]
        size = min(_MOST_REVIEWED, len(open_rows))
        if not size:
            return []
        worst = np.argpartition(p, size - 1)[:size]
        worst = worst[np.argsort(p[worst], kind="stable")]
        return [int(i) for i in open_rows[worst]]

    def suggest(self, group: int) -> dict[str, Any]:
        """Names for a group, and its words."""
        self._rows_of(group)
        groups = self.groups()
        words = self.naming.words(group, groups) if group != NOISE else []
        return {"names": self.naming.suggest(group, groups), "words": words}

    def _rows_of(self, group: int) -> Rows:
        groups = self.groups()
        if group not in groups:
            raise ValueError(f"there is no cluster {group}; it may have been merged")
        return groups[group]

    # ------------------------------------------------------------------ act

    def preview_split(self, group: int, parts: int) -> dict[str, Any]:
        """Cut a group and show the parts; ``apply`` takes the key to do it."""
        revision = self.revision
        cut = self.looking.split(self._rows_of(group), parts)
        key = secrets.token_hex(8)
        with self.lock:
            self._previews[key] = Split(group, tuple(cut[1:]))
            while len(self._previews) > _PREVIEWS:
                self._previews.popitem(last=False)
        shown = [self.looking.order(part, "typical")[:12].tolist() for part in cut]
        return {
            "key": key,
            "revision": revision,
            "parts": [
                {"size": len(part), "typical": rows} for part, rows in zip(cut, shown, strict=True)
            ],
        }

    def act(self, tree: Any) -> dict[str, Any]:
        """Do and write an act; the new state."""
        with self.lock:
            if isinstance(tree, dict) and tree.get("act") == "split" and "key" in tree:
                act: Act | None = self._previews.get(str(tree["key"]))
                if act is None:
                    raise ValueError("this preview is no longer known; preview the split again")
            else:
                act = read_act(tree, self.material.n)
            if isinstance(tree, dict) and tree.get("revision", self.revision) != self.revision:
                raise ValueError("another tab changed the clusters; look again, then repeat")
            self.journal.record(act)
            return self.state()

    def keep(self) -> dict[str, Any]:
        """Write the corrected tables into the run."""
        with self.lock:
            if self.read_only:
                raise PermissionError("this page is read-only; start unbend explore without it")
            paths = write_curated(self.material.path, self.material.facts, self.journal.curation)
            groups = [g for g in self.journal.curation.groups() if g.size]
        return {"files": [path.name for path in paths], "n_groups": len(groups)}

    def close(self) -> None:
        """Close the journal."""
        self.journal.close()


def colour(group: int) -> str:
    """The colour of a group; it keeps it for life."""
    return colours(group + 1)[-1] if group >= 0 else "#8a8f98"


def _say(act: Act | None) -> str | None:
    """What a button to undo or redo says."""
    return None if act is None else act.kind
