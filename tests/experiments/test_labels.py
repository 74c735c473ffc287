"""The experiment on labels: its tables, on blobs and short fits."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import make_blobs

from unbend.estimator import MLC
from unbend.experiments import labels


@pytest.fixture
def blobs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    X, y = make_blobs(
        [30] * 5, centers=9 * np.eye(5, 12), n_features=12, cluster_std=0.6, random_state=0
    )
    monkeypatch.setenv("UNBEND_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(labels, "_load", lambda name: (X, y.astype(np.int64)))
    monkeypatch.setattr(labels, "MLC", partial(MLC, pretrain_epochs=4, epochs=2))


@pytest.mark.usefixtures("blobs")
def test_every_part_has_its_row(tmp_path: Path) -> None:
    table = labels.run(data="blobs", seeds=1, out=tmp_path / "out", verbose=False)
    assert [row[0] for row in table.rows] == ["merge", "count", "confidence", "outliers"]
    assert all(row[1] == "blobs, n = 150" for row in table.rows)
    merge, count, confidence, outliers = table.rows
    assert merge[4].startswith("asking for k: 1.000")
    assert count[3] == "5"
    assert count[4].startswith("true k 5: near in 1, in the interval in 1, the same in 1; open: ")
    assert 0 <= float(confidence[3].split()[0]) < 0.3
    assert float(outliers[3].split()[0]) <= 0.15  # of 36 fresh samples
    foreign = [float(word) for word in outliers[4].split(";")[0].split()[1:]]
    assert len(foreign) == 4  # now, before, isolation forest, kNN
    assert foreign[0] > 0.95
    assert list((tmp_path / "out").glob("labels*.md"))


def test_an_unknown_part_is_refused() -> None:
    with pytest.raises(ValueError, match="labels has no part 'x'; known: merge, count"):
        labels.run(methods="x")
