"""SCAN on images: the table states what the labels before and after self-labelling score."""

import numpy as np
import pytest

from unbend.experiments import scan
from unbend.experiments.runner import ImageRun, Runner


def test_the_table_compares_before_and_after_on_the_same_features(tiny, monkeypatch):
    """12 and 24 of 120 samples are wrong: self-labelling adds a tenth; k-means reads ``Z``."""

    def images(self, method, start, seed, **params):
        assert (method, start) == ("scan", "simclr")
        wrong = [self.problem.y.copy() for _ in range(2)]
        for labels, count in zip(wrong, (12, 24), strict=True):
            labels[:count] = (labels[:count] + 1) % 3
        return ImageRun(wrong[0], np.eye(3)[self.problem.y], 5.0, wrong[1], 7.0, 2.0)

    monkeypatch.setattr(Runner, "from_images", images)
    table = scan.compare(tiny, range(2), verbose=False)
    rows = {row[0]: row[1:] for row in table.rows}
    assert rows["SCAN with self-labelling"][::4] == ["0.900 ± 0.000", "2 ± 0"]
    assert rows["SCAN without"][::4] == ["0.800 ± 0.000", "3 ± 0"]
    assert rows["k-means on the same backbone's features"][0] == "1.000 ± 0.000"
    assert "k-means: the reverse shows (-0.200" in table.notes[0]
    assert "above without: shows (+0.100" in table.notes[1]
    assert "SimCLR trains the backbone first (7 ± 0 s)" in table.notes[2]


def test_an_unknown_scale_is_named():
    with pytest.raises(ValueError, match="`scale` must be one of small, full, got 'tiny'"):
        scan.run(scale="tiny")
