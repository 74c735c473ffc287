from itertools import permutations

import numpy as np
import pytest

from unbend.metrics import clustering_scores
from unbend.report.truth import compare_with_truth, truth_from_metrics


@pytest.fixture
def found():
    rng = np.random.default_rng(0)
    y, labels = rng.integers(4, size=200), rng.integers(5, size=200)
    return y, labels, compare_with_truth(y, labels, classes=list("abcd"), split="test")


def test_table_and_scores(found):
    y, labels, truth = found
    for r in range(4):
        for c in range(5):
            assert truth["table"][r][c] == sum((y == r) & (labels == c))
    assert truth["classes"] == ["a", "b", "c", "d"]
    assert truth["split"] == "test"
    assert truth["scores"] == clustering_scores(y, labels).to_dict()
    assert abs(truth["chance"]["ami"]) < 0.05


def test_match_is_the_best_of_all(found):
    *_, truth = found
    table = np.array(truth["table"])
    best = max(sum(table[r, c] for r, c in enumerate(p)) for p in permutations(range(5), 4))
    pairs = [(r, c) for c, r in enumerate(truth["match"]) if r is not None]
    assert sum(table[r, c] for r, c in pairs) == best
    assert truth["match"].count(None) == 1


def test_metrics_of_a_run(found):
    *_, truth = found
    metrics = {"split": "test", "MLC": truth["scores"], "chance": truth["chance"]}
    assert truth_from_metrics(metrics)["table"] is None
    written = {key: truth[key] for key in ("classes", "clusters", "table")}
    assert truth_from_metrics({**metrics, "contingency": written}) == truth
    assert truth_from_metrics({}) is None
    assert truth_from_metrics({"MLC": {"acc": 1.0}}) is None
    with pytest.raises(ValueError, match="must have a row per class"):
        truth_from_metrics({**metrics, "contingency": {**written, "classes": ["a"]}})
