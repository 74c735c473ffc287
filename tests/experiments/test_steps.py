"""The length of stage 1."""

from __future__ import annotations

import numpy as np

from unbend.experiments import steps


def test_neighbours_in_both_lists_are_counted():
    now = np.array([[1, 2], [0, 3]])
    before = np.array([[2, 3], [3, 0]])  # one of two, and both in another order
    assert steps._kept(now, before) == 0.75
    assert steps._kept(now, now) == 1.0


def test_every_length_has_a_row_and_lengths_are_those_asked_for(monkeypatch, tmp_path):
    """Two groups far apart are found at any length; longer fits have more steps."""
    rng = np.random.default_rng(0)
    y = np.arange(60) % 2
    X = (rng.normal(size=(60, 4)) + 20 * y[:, None]).astype(np.float32)
    monkeypatch.setattr(steps, "load_problem", lambda which, name: (X, y))
    monkeypatch.setattr(steps, "FACTORS", (0.02, 0.04))
    monkeypatch.setenv("UNBEND_CACHE", str(tmp_path / "cache"))
    table = steps.run(data="two", seeds=2, out=tmp_path, verbose=False)
    assert [row[:2] for row in table.rows] == [["two", "8"], ["two", "16"]]
    assert [row[2] for row in table.rows] == ["1.000 ± 0.000"] * 2
    assert table.rows[0][7] == ""
    assert 0 < float(table.rows[1][7].split()[0]) <= 1
    assert (tmp_path / "steps-two.md").exists()


def test_shapes_are_those_that_the_network_gets():
    assert steps._shape(np.zeros((5, 8, 8))) == (1, 8, 8)
    assert steps._shape(np.zeros((5, 3, 8, 8))) == (3, 8, 8)
    assert steps._shape(np.zeros((5, 7))) == (7,)
