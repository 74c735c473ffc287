"""Calibration error against purity, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from unbend.metrics import reliability


def test_confidence_equal_to_purity_has_no_calibration_error() -> None:
    """Of a thousand samples with confidence c a share of c is right."""
    rng = np.random.default_rng(0)
    confidence = np.repeat([0.55, 0.75, 0.95], 1000)
    labels = rng.integers(4, size=3000)
    right = np.tile(np.arange(1000), 3) < 1000 * confidence
    y = np.where(right, labels, 4 + rng.integers(40, size=3000))
    found = reliability(y, labels, confidence)
    assert found["ece"] == pytest.approx(0, abs=1e-9)
    assert found["purity"] == pytest.approx(0.75)
    assert [row["n"] for row in found["bins"]] == [1000, 1000, 1000]


def test_overconfidence_is_measured_and_noise_is_left_out() -> None:
    y = np.array(["a", "a", "b", "b", "z"])
    found = reliability(y, [0, 0, 0, 1, -1], [1.0, 1.0, 1.0, 1.0, 0.1])
    assert found["purity"] == 0.75
    assert found["ece"] == pytest.approx(0.25)
    assert found["bins"] == [{"confidence": 1.0, "purity": 0.75, "n": 4}]


@pytest.mark.parametrize(
    ("labels", "confidence", "words"),
    [
        ([0, 0, 1], [1.0, 1.0], "must be equally long, got 3, 3 and 2"),
        ([0, 0, 1], [1.0, 7.0, 1.0], "must be probabilities from 0 to 1"),
        ([0, 0, 1], [1.0, np.nan, 1.0], "must be probabilities from 0 to 1"),
    ],
)
def test_what_cannot_be_calibrated_is_refused(labels, confidence, words) -> None:
    with pytest.raises(ValueError, match=words):
        reliability([0, 0, 1], labels, confidence)


def test_clusters_may_have_names() -> None:
    assert reliability([0, 0, 1], ["a", "a", "b"], [1.0, 1.0, 1.0])["purity"] == 1
