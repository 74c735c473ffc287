"""Acts against a slow oracle, undo and redo, the journal and what damages it."""

import json
import os
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unbend.explore import NOISE, Curation, Journal, read_act, read_curation
from unbend.explore.acts import Merge, Move, Redo, Rename, Split, Undo


class Oracle:
    """The obvious way: a list of labels, and a full copy before every act."""

    def __init__(self, labels):
        k = max(labels) + 1
        self.now = {"labels": list(labels), "names": {}, "alive": set(range(k)), "next": k}
        self.past, self.future = [], []

    def copy(self):
        n = self.now
        return {**n, "labels": list(n["labels"]), "names": dict(n["names"])} | {
            "alive": set(n["alive"])
        }

    def apply(self, act):
        if isinstance(act, Undo):
            self.future.append(self.now)
            self.now = self.past.pop()
            return
        if isinstance(act, Redo):
            self.past.append(self.now)
            self.now = self.future.pop()
            return
        self.past.append(self.copy())
        self.future.clear()
        n = self.now
        if isinstance(act, Merge):
            gone = set(act.groups) - {act.into}
            n["labels"] = [act.into if q in gone else q for q in n["labels"]]
            n["alive"] -= gone
            n["names"] = {g: v for g, v in n["names"].items() if g not in gone}
        elif isinstance(act, Split):
            for part in act.parts:
                for i in part:
                    n["labels"][i] = n["next"]
                n["alive"].add(n["next"])
                n["next"] += 1
        elif isinstance(act, Rename):
            n["names"].pop(act.group, None)
            if act.name:
                n["names"][act.group] = act.name
        elif isinstance(act, Move):
            to = act.to
            if to is None:
                to = n["next"]
                n["alive"].add(to)
                n["next"] += 1
            for i in act.rows:
                n["labels"][i] = to


def random_act(rng, oracle):
    """Some act that is possible now."""
    n, labels = oracle.now, np.array(oracle.now["labels"])
    alive = sorted(n["alive"])
    kind = rng.integers(7)
    if kind == 0 and len(alive) > 2:
        groups = rng.choice(alive, rng.integers(2, 4) if len(alive) > 3 else 2, replace=False)
        return Merge(tuple(map(int, groups)), int(groups[0]))
    if kind == 1:
        group = int(rng.choice(alive))
        rows = rng.permutation(np.flatnonzero(labels == group))
        if len(rows) > 3:
            return Split(group, (np.sort(rows[:1]), np.sort(rows[1:3])))
    if kind == 2:
        return Rename(int(rng.choice(alive)), str(rng.choice(["", "cats", "dogs"])))
    if kind == 3 and oracle.past:
        return Undo()
    if kind == 4 and oracle.future:
        return Redo()
    to = [None, NOISE, int(rng.choice(alive))][rng.integers(3)]
    return Move(np.sort(rng.choice(len(labels), 3, replace=False)), to)


@settings(deadline=None, max_examples=8)
@given(st.integers(0, 2**32 - 1))
def test_acts_agree_with_the_oracle_and_survive_the_journal(tmp_path_factory, seed):
    rng = np.random.default_rng(seed)
    labels = np.r_[np.arange(4), rng.integers(4, size=26)]
    path = tmp_path_factory.mktemp("journal") / "curation.jsonl"
    oracle, journal = Oracle(labels.tolist()), Journal(path, labels)
    for _ in range(30):
        act = random_act(rng, oracle)
        oracle.apply(act)
        journal.record(act)
    journal.close()
    again = Journal(path, labels).curation
    for found in (journal.curation, again):
        assert found.labels().tolist() == oracle.now["labels"]
        assert {g.id for g in found.groups()} == oracle.now["alive"]
        names = {g.id: g.name for g in found.groups() if g.named}
        assert names == oracle.now["names"]
        assert found.count == 30


def test_everything_can_be_undone_and_redone():
    labels = np.repeat(np.arange(5), 8)
    curation, oracle, rng = Curation(labels), Oracle(labels.tolist()), np.random.default_rng(3)
    for _ in range(60):
        act = random_act(rng, oracle)
        if not isinstance(act, Undo | Redo):
            oracle.apply(act)
            curation.apply(act)
    last = curation.labels()
    steps = 0
    while curation.undoable:
        curation.apply(Undo())
        steps += 1
    assert curation.labels().tolist() == labels.tolist()
    assert not any(g.named for g in curation.groups())
    for _ in range(steps):
        curation.apply(Redo())
    assert curation.labels().tolist() == last.tolist()


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        ([], "an act is an object"),
        ({"act": "drop"}, "`act` must be"),
        ({"act": "merge", "groups": [0], "into": 0}, "two different clusters"),
        ({"act": "merge", "groups": [0, 0], "into": 0}, "two different clusters"),
        ({"act": "merge", "groups": [0, 1], "into": 2}, "`into` must be one"),
        ({"act": "merge", "groups": [0, 99], "into": 0}, "no cluster 99"),
        ({"act": "merge", "groups": [0, True], "into": 0}, "whole number"),
        ({"act": "merge", "groups": [-1, 1], "into": 1}, "no cluster -1"),
        ({"act": "split", "group": 0, "parts": []}, "`parts` must be"),
        ({"act": "split", "group": 0, "parts": [[0], [0]]}, "must not share"),
        ({"act": "split", "group": 0, "parts": [[9]]}, "must lie in cluster 0"),
        ({"act": "split", "group": 0, "parts": [[0, 1, 2]]}, "must leave some"),
        ({"act": "rename", "group": 0, "name": 7}, "must be text"),
        ({"act": "rename", "group": 0, "name": "x" * 200}, "at most 120"),
        ({"act": "rename", "group": -1, "name": "x"}, "no cluster -1"),
        ({"act": "move", "rows": [], "to": 0}, "is empty"),
        ({"act": "move", "rows": [0.5], "to": 0}, "whole numbers"),
        ({"act": "move", "rows": [[0]], "to": 0}, "whole numbers"),
        ({"act": "move", "rows": [12], "to": 0}, "from 0 to 11"),
        ({"act": "move", "rows": [-1], "to": 0}, "from 0 to 11"),
        ({"act": "move", "rows": [1, 1], "to": 0}, "twice"),
        ({"act": "move", "rows": [2**70], "to": 0}, "whole numbers"),
        ({"act": "move", "rows": [1], "to": 44}, "no cluster 44"),
        ({"act": "undo"}, "nothing to undo"),
        ({"act": "redo"}, "nothing to redo"),
    ],
)
def test_wrong_acts_change_nothing(tmp_path, tree, message):
    labels = np.repeat(np.arange(4), 3)
    journal = Journal(tmp_path / "curation.jsonl", labels)
    with pytest.raises(ValueError, match=message):
        journal.record(read_act(tree, 12))
    assert journal.curation.labels().tolist() == labels.tolist()
    assert not (tmp_path / "curation.jsonl").exists()


def test_names_lose_what_could_deceive():
    act = read_act({"act": "rename", "group": 0, "name": " a\n\u202eb\x00\t c\ud800 "}, 3)
    assert act.name == "a b c"


def test_a_line_that_was_cut_off_is_dropped(tmp_path):
    path, labels = tmp_path / "curation.jsonl", np.repeat(np.arange(3), 4)
    journal = Journal(path, labels)
    journal.record(Rename(0, "cats"))
    journal.close()
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"act": "rename", "gro')
    seen = Journal(path, labels, read_only=True)
    assert seen.curation.name(0) == "cats"
    assert path.read_bytes() != whole  # a reader repairs nothing
    again = Journal(path, labels)
    again.record(Rename(1, "dogs"))
    again.close()
    lines = path.read_text().splitlines()
    assert [json.loads(line).get("name") for line in lines] == [None, "cats", "dogs"]
    assert path.read_bytes().startswith(whole)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda text: text.replace('"rename"', '"renam', 1), "line 2"),
        (lambda text: text.replace('"group": 0', '"group": 77', 1), "line 2.*no cluster 77"),
        (lambda text: "", "line 1"),
        (lambda text: "[1]\n" + text, "line 1"),
        (lambda text: text.replace('"n_clusters": 3', '"n_clusters": 99'), "99 clusters"),
        (lambda text: text.replace('"format": 1', '"format": 9'), "update unbend"),
    ],
)
def test_other_damage_is_named(tmp_path, damage, message):
    path, labels = tmp_path / "curation.jsonl", np.repeat(np.arange(3), 4)
    journal = Journal(path, labels)
    journal.record(Rename(0, "cats"))
    journal.record(Rename(0, "dogs"))
    journal.close()
    path.write_text(damage(path.read_text()))
    with pytest.raises(ValueError, match=message):
        Journal(path, labels)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes")
def test_a_pipe_as_journal_does_not_hang(tmp_path):
    os.mkfifo(tmp_path / "curation.jsonl")
    with pytest.raises(ValueError, match="not a regular file"):
        Journal(tmp_path / "curation.jsonl", np.zeros(3, np.int64))


def test_a_journal_of_other_labels_is_refused(tmp_path):
    labels = np.repeat(np.arange(3), 4)
    Journal(tmp_path / "curation.jsonl", labels).record(Rename(0, "cats"))
    with pytest.raises(ValueError, match="belongs to other labels"):
        read_curation(tmp_path, labels[::-1].copy())
    with pytest.raises(ValueError, match="no corrections"):
        read_curation(tmp_path / "elsewhere", labels)


def test_new_clusters_keep_their_numbers_where_the_last_cluster_is_empty(tmp_path):
    labels = np.repeat(np.arange(3), 4)
    journal = Journal(tmp_path / "curation.jsonl", labels, n_clusters=5)
    journal.record(Split(0, (np.array([0, 1]),)))
    journal.record(Rename(5, "new"))
    journal.close()
    again = read_curation(tmp_path, labels)
    assert again.labels().tolist() == journal.curation.labels().tolist()
    assert again.name(5) == "new"


def test_a_full_disk_changes_nothing(tmp_path, monkeypatch):
    path, labels = tmp_path / "curation.jsonl", np.repeat(np.arange(3), 4)
    journal = Journal(path, labels)
    journal.record(Rename(0, "cats"))
    before, write = path.read_bytes(), os.write

    def full(handle, data):
        write(handle, bytes(data)[:5])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OSError, match="No space left"):
        journal.record(Rename(0, "dogs"))
    monkeypatch.undo()
    assert path.read_bytes() == before
    assert journal.curation.name(0) == "cats"
    journal.record(Rename(0, "birds"))
    assert read_curation(tmp_path, labels).name(0) == "birds"


def test_ten_thousand_acts_replay(tmp_path):
    """100,000 samples, in at most two seconds of the processor: others may use the machine too."""
    rng = np.random.default_rng(0)
    labels = rng.integers(50, size=100_000)
    path = tmp_path / "curation.jsonl"
    journal = Journal(path, labels)
    acts = [
        Move(np.sort(rng.choice(100_000, 10, replace=False)), int(rng.integers(50)))
        for _ in range(10_000)
    ]
    for i in range(0, 10_000, 10):
        acts[i] = Undo() if i and i % 20 else Rename(int(rng.integers(50)), f"name {i}")
    journal._append(b"")
    with path.open("ab") as file:
        for act in acts:
            file.write(json.dumps(act.to_dict()).encode() + b"\n")
    journal.close()
    start = time.process_time()
    curation = Journal(path, labels, read_only=True).curation
    assert time.process_time() - start < 2
    assert curation.count == 10_000
    expected = labels.copy()
    done = []
    for act in acts:
        if isinstance(act, Undo):
            done.pop()
        else:
            done.append(act)
    for act in done:
        if isinstance(act, Move):
            expected[act.rows] = act.to
    assert curation.labels().tolist() == expected.tolist()
